/** Backend and gateways, each in a process of its own that ends with the part. */

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../../test/support/servers/ports.ts'
import {
  makeFolder,
  removeFolder,
  ServerProcess,
} from '../../../test/support/servers/server-process.ts'
import { until } from '../../../test/support/servers/until.ts'
import type { CoreOfItsOwn } from '../../harness/cores.ts'
import type { Run } from '../../harness/part.ts'

type Stops = Pick<Run, 'onStop'>

const PROGRAM = join(import.meta.dirname, '../../../packages/server/src/main.ts')

/**
 * Starts our gateway with a policy; the arguments are the settings in which the gateways differ.
 */
export async function startTidegate(
  run: Stops,
  backend: number,
  policy: object,
  core: CoreOfItsOwn,
): Promise<number> {
  const folder = makeFolder()
  const port = await freePort()
  const document = {
    gateway: { listen: { host: '127.0.0.1', port } },
    upstreams: { backend: { targets: [`http://127.0.0.1:${backend}`] } },
    log: { level: 'error' },
    limits: [],
    ...policy,
  }
  const file = join(folder, 'policy.yaml')
  writeFileSync(file, JSON.stringify(document))
  const [command = '', ...args] = [...core, process.execPath, PROGRAM, 'gateway', '--config', file]
  const running = new ServerProcess(command, args, folder)
  run.onStop(async () => {
    await running.end()
    removeFolder(folder)
  })
  const state = await until('the gateway is ready', async () => {
    if (running.hasEnded) return 'ended'
    return (await fetch(`http://127.0.0.1:${port}/ready`)).ok && 'ready'
  })
  if (state === 'ended') throw new Error(`the gateway ended at its start:\n${running.output}`)
  return port
}

/** The upstream of the proxies. */
export function startBackend(run: Stops): Promise<number> {
  return startChild(run, '../load/quick-backend.ts', [], [])
}

/** The server that refusals are compared with; it only answers. */
export function startBareServer(run: Stops, core: CoreOfItsOwn): Promise<number> {
  return startChild(run, '../load/http-backend.ts', [], core)
}

export function startExpress(
  run: Stops,
  backend: number,
  redis: number,
  core: CoreOfItsOwn,
): Promise<number> {
  const args = [`http://127.0.0.1:${backend}`, String(redis)]
  return startChild(run, 'express-gateway.ts', args, core)
}

async function startChild(
  run: Stops,
  program: string,
  args: readonly string[],
  core: CoreOfItsOwn,
): Promise<number> {
  const [execPath = '', ...execArgv] = [...core, process.execPath]
  const child = fork(join(import.meta.dirname, program), args, { execPath, execArgv })
  run.onStop(() => child.kill('SIGKILL'))
  const [port] = (await once(child, 'message')) as [number]
  return port
}
