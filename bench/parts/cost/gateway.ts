/** Processor time of the gateway and of Redis per admitted request. */

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../../test/support/servers/ports.ts'
import type { RedisServer } from '../../../test/support/servers/redis.ts'
import {
  makeFolder,
  removeFolder,
  ServerProcess,
} from '../../../test/support/servers/server-process.ts'
import { until } from '../../../test/support/servers/until.ts'
import { programVersion } from '../../harness/machine.ts'
import type { Run } from '../../harness/part.ts'
import { writeScript, wrk } from '../load/wrk.ts'

export interface GatewayCost {
  readonly requests: number
  readonly gatewayCpuUs: number
  readonly redisCpuUs: number
}

const PROGRAM = join(import.meta.dirname, '../../../packages/server/src/main.ts')
const CONNECTIONS = 64

/** Linux counts the processor time of a process in hundredths of a second. */
const TICK_US = 10_000

/** Returns undefined, and reports the missing program, if wrk is not installed. */
export async function gatewayCost(
  run: Run,
  redis: RedisServer,
  seconds: number,
): Promise<GatewayCost | undefined> {
  const version = programVersion('wrk', ['-v'])
  if (version === undefined || !existsSync('/proc/self/stat')) {
    run.skipped('the gateway: needs wrk (apt-get install wrk) and the /proc of Linux')
    return undefined
  }
  run.uses('wrk', version)
  const folder = makeFolder()
  run.onStop(() => removeFolder(folder))
  const { pid, port } = await startGateway(run, folder, redis, await startBackend(run))
  const scriptFile = writeScript(folder)
  const load = () => wrk({ port, seconds, connections: CONNECTIONS, scriptFile })
  await load()
  const before = [cpuUs(pid), cpuUs(redis.pid)] as const
  const { requests, refused } = await load()
  if (refused > 0) throw new Error(`the gateway did not pass ${refused} of ${requests} requests`)
  return {
    requests,
    gatewayCpuUs: (cpuUs(pid) - before[0]) / requests,
    redisCpuUs: (cpuUs(redis.pid) - before[1]) / requests,
  }
}

export async function startBackend(run: Run): Promise<number> {
  const child = fork(join(import.meta.dirname, '../load/http-backend.ts'))
  run.onStop(() => child.kill('SIGKILL'))
  const [port] = (await once(child, 'message')) as [number]
  return port
}

/**
 * Starts one process with a limit per API key that is never reached. `variables` are texts such as
 * `NAME=value`, `sections` further ones of the policy, and `gateway` fields of that section.
 */
export async function startGateway(
  run: Run,
  folder: string,
  redis: RedisServer,
  backend: number,
  variables: readonly string[] = [],
  { gateway, ...sections }: { readonly gateway?: object } = {},
) {
  const port = await freePort()
  const policy = {
    gateway: { listen: { host: '127.0.0.1', port }, ...gateway },
    upstreams: { backend: { targets: [`http://127.0.0.1:${backend}`] } },
    // On a busy machine a late answer would admit without counting, which is cheaper.
    store: { mode: 'standalone', addresses: [`127.0.0.1:${redis.port}`], deadline: '1s' },
    limits: [{ name: 'per-key', key: 'apiKey', otherwise: 'deny', per: '1d', limit: 1_000_000 }],
    log: { level: 'error' },
    ...sections,
  }
  const file = join(folder, `policy-${port}.yaml`)
  writeFileSync(file, JSON.stringify(policy))
  const args = [...variables, process.execPath, PROGRAM, 'gateway', '--config', file]
  const running = new ServerProcess('env', args, folder)
  run.onStop(() => running.end())
  await until('the gateway is ready', async () => {
    if (running.hasEnded) throw new Error(`the gateway ended at its start:\n${running.output}`)
    return (await fetch(`http://127.0.0.1:${port}/ready`)).ok
  })
  return { pid: running.pid, port }
}

/** User and system time are the 14th and 15th field; the second is a name in parentheses. */
function cpuUs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) * TICK_US
}
