/** `tidegate rls` as a process of its own. */

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { programFile } from '../../support/program.ts'
import { freePort, LOOPBACK } from '../../support/servers/ports.ts'
import { makeFolder, removeFolder, ServerProcess } from '../../support/servers/server-process.ts'
import { until } from '../../support/servers/until.ts'

export interface RlsProcess {
  readonly pid: number
  readonly port: number
  readonly http: string
  readonly debug: string
  /** Everything that the process has printed. */
  output(): string
  stop(): Promise<void>
}

/** Resolves when the service is healthy. `environment` is as in docs/envoy-settings.md. */
export async function startRlsProcess(
  config: string,
  environment: Readonly<Record<string, string>>,
): Promise<RlsProcess> {
  const folder = makeFolder()
  const directory = join(folder, 'config')
  mkdirSync(directory)
  writeFileSync(join(directory, 'config.yaml'), config)
  const [port, httpPort, debugPort] = [await freePort(), await freePort(), await freePort()]
  const settings = {
    HOST: LOOPBACK,
    PORT: httpPort,
    DEBUG_PORT: debugPort,
    GRPC_HOST: LOOPBACK,
    GRPC_PORT: port,
    ...environment,
  }
  const variables = Object.entries(settings).map(([name, value]) => `${name}=${value}`)
  const program = programFile
  const node = [process.execPath, '--disable-warning=ExperimentalWarning', program]
  const child = new ServerProcess(
    'env',
    [...variables, ...node, 'rls', '--config-dir', directory],
    folder,
  )
  const http = `http://${LOOPBACK}:${httpPort}`
  await until('the service is healthy', async () => {
    return child.hasEnded || (await fetch(`${http}/healthcheck`)).ok
  })
  if (child.hasEnded) throw new Error(`the service ended: ${child.output}`)
  return {
    pid: child.pid,
    port,
    http,
    debug: `http://${LOOPBACK}:${debugPort}`,
    output: () => child.output,
    async stop() {
      await child.end()
      removeFolder(folder)
    },
  }
}
