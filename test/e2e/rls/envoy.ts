/** A real Envoy with an upstream, and the rate limit service as a process of its own, for tests. */

import { writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { programFile } from '../../support/program.ts'
import type { Certificate } from '../../support/servers/certificates.ts'
import { freePort, LOOPBACK } from '../../support/servers/ports.ts'
import { makeFolder, removeFolder, ServerProcess } from '../../support/servers/server-process.ts'
import { until } from '../../support/servers/until.ts'
import { type EnvoyPorts, envoyConfig } from './envoy-config.ts'

/** The path of Envoy; `./run.sh test-envoy` sets it. */
export const envoyBinary = process.env.TIDEGATE_ENVOY

export interface TestEnvoy {
  readonly ports: EnvoyPorts
  /** The number of requests that reached the upstream. */
  readonly upstreamRequests: number
  stop(): Promise<void>
}

export interface RlsProcess {
  readonly output: string
  readonly http: string
  kill(signal: NodeJS.Signals): void
  /** Ends it if it runs, and starts another one on the same ports. */
  restart(): Promise<void>
  stop(): Promise<void>
}

export async function startEnvoy(service: number, certificate?: Certificate): Promise<TestEnvoy> {
  let upstreamRequests = 0
  const upstream = createServer((request, response) => {
    upstreamRequests++
    request.resume()
    response.end('upstream')
  })
  const ports = {
    admin: await freePort(),
    open: await freePort(),
    deny: await freePort(),
    service,
    upstream: await listen(upstream),
  }
  const folder = makeFolder()
  const file = join(folder, 'envoy.json')
  writeFileSync(file, JSON.stringify(envoyConfig(ports, certificate)))
  const args = ['-c', file, '--disable-hot-restart', '--concurrency', '1', '-l', 'error']
  const envoy = new ServerProcess(envoyBinary ?? 'envoy', args, folder)
  const stop = async () => {
    await envoy.end()
    upstream.closeAllConnections()
    await new Promise((resolve) => upstream.close(resolve))
    removeFolder(folder)
  }
  try {
    await untilReady('Envoy', envoy, `http://${LOOPBACK}:${ports.admin}/ready`)
  } catch (error) {
    await stop()
    throw error
  }
  return {
    ports,
    get upstreamRequests() {
      return upstreamRequests
    },
    stop,
  }
}

/** `tidegate rls`, configured by its environment. */
export async function startRlsProcess(
  port: number,
  configDirectory: string,
  environment: Readonly<Record<string, string>>,
): Promise<RlsProcess> {
  const httpPort = await freePort()
  const folder = makeFolder()
  const main = programFile
  const variables = {
    GRPC_HOST: LOOPBACK,
    GRPC_PORT: port,
    HOST: LOOPBACK,
    PORT: httpPort,
    DEBUG_PORT: 0,
    ...environment,
  }
  const assignments = Object.entries(variables).map(([name, value]) => `${name}=${value}`)
  const program = ['--disable-warning=ExperimentalWarning', main, 'rls']
  const args = [...assignments, process.execPath, ...program, '--config-dir', configDirectory]
  const http = `http://${LOOPBACK}:${httpPort}`
  const start = async () => {
    // `env` executes the program in its own process, so the process id is the program's.
    const started = new ServerProcess('env', args, folder)
    await untilReady('the service', started, `${http}/healthcheck`)
    return started
  }
  let service = await start()
  return {
    get output() {
      return service.output
    },
    http,
    kill: (signal) => service.kill(signal),
    restart: async () => {
      await service.end()
      service = await start()
    },
    stop: async () => {
      await service.end()
      removeFolder(folder)
    },
  }
}

/** Fails if the process has ended. */
async function untilReady(name: string, server: ServerProcess, url: string): Promise<void> {
  await until(`${name} is ready`, async () => server.hasEnded || (await fetch(url)).ok)
  if (server.hasEnded) throw new Error(`${name} has ended: ${server.output}`)
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen({ host: LOOPBACK, port: 0 }, resolve))
  return (server.address() as AddressInfo).port
}
