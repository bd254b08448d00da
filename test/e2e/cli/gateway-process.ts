/** The program `tidegate gateway` as a process of its own, with a policy file that can change. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { programFile } from '../../support/program.ts'
import { replaceFile } from '../../support/replace-file.ts'
import { freePort } from '../../support/servers/ports.ts'
import { until } from '../../support/servers/until.ts'

export interface GatewayProcess {
  readonly child: ChildProcess
  readonly port: number
  readonly adminPort: number
  readonly url: string
  /** The output so far. */
  output(): string
  /** Writes another policy; fields that it does not have stay as they were at the start. */
  write(policy: object | string): void
  /** Writes a file into the folder of the policy. */
  writeBeside(name: string, text: string): void
  status(): Promise<{
    policy: { version: string; refused?: string[] }
    upstreams: Record<string, object[]>
  }>
  stop(signal?: NodeJS.Signals): Promise<number | null>
}

export interface GatewayProcessOptions {
  readonly policy: object
  /** The port of the policy, if the policy sets it. */
  readonly port?: number
  readonly args?: readonly string[]
  /** Default: the bundle of this run, which has no files of the console. */
  readonly program?: string
  readonly environment?: Readonly<Record<string, string>>
}

export async function startGatewayProcess(options: GatewayProcessOptions): Promise<GatewayProcess> {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-gateway-'))
  const [port, adminPort] = [options.port ?? (await freePort()), await freePort()]
  const fixed = {
    // On a machine that stalls the process would shed requests.
    gateway: { listen: { host: '127.0.0.1', port }, overload: { delay: '1m' } },
    admin: { listen: { port: adminPort } },
  }
  const merged = ({ gateway, ...rest }: { gateway?: object }) => ({
    ...fixed,
    ...rest,
    gateway: { ...fixed.gateway, ...gateway },
  })
  const file = join(folder, 'tidegate.yaml')
  const write = (policy: object | string) => {
    replaceFile(file, typeof policy === 'string' ? policy : JSON.stringify(merged(policy)))
  }
  write(options.policy)
  const program = [options.program ?? programFile, 'gateway']
  const args = [...program, '--config', file, ...(options.args ?? [])]
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', ...args], {
    env: { ...process.env, ...options.environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (part: Buffer) => {
      output += part.toString()
    })
  }
  const url = `http://127.0.0.1:${port}`
  await until(`the gateway is ready: ${output}`, async () => {
    if (child.exitCode !== null) return true
    return (await fetch(`${url}/ready`)).ok
  })
  if (child.exitCode !== null) throw new Error(`the gateway ended: ${output}`)
  return {
    child,
    port,
    adminPort,
    url,
    output: () => output,
    write,
    writeBeside: (name, text) => writeFileSync(join(folder, name), text),
    status: async () => (await fetch(`http://127.0.0.1:${adminPort}/status`)).json() as never,
    async stop(signal = 'SIGTERM') {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill(signal)
        await once(child, 'exit')
      }
      rmSync(folder, { recursive: true, force: true })
      return child.exitCode
    },
  }
}

export interface Backend {
  readonly server: Server
  readonly url: string
  stop(): Promise<void>
}

/** Answers every request with 200 after `delayMs`. */
export async function startBackend(delayMs = 0): Promise<Backend> {
  const server = createServer((request, response) => {
    setTimeout(() => response.end(`${request.method} ${request.url}`), delayMs)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    server,
    url: `http://127.0.0.1:${port}`,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
