/** Gateways with the same limit on Redis, which differ in how they are observed. */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import type { RedisServer } from '../../../test/support/servers/redis.ts'
import { makeFolder, removeFolder } from '../../../test/support/servers/server-process.ts'
import type { Run } from '../../harness/part.ts'
import type { Contender } from '../../harness/rounds.ts'
import { startBackend, startGateway } from '../cost/gateway.ts'
import { cannonade } from '../load/http-load.ts'
import { average, type Cost } from './overhead.ts'

export interface GatewaySettings {
  readonly name: string
  /** Such as `NAME=value`. */
  readonly variables?: readonly string[]
  /** Further sections of the policy. */
  readonly sections?: { readonly admin?: object }
}

const PROCESSES = 2

/**
 * Requests before the first round, of a caller that has them sampled: at 1 %, the code of spans
 * would still be interpreted in all rounds, and take ten times as long.
 */
const WARM_UP_REQUESTS = 10_000

const traceparent = `00-${'1'.repeat(32)}-${'1'.repeat(16)}-01`

/** Callers may decide on sampling. */
const gateway = { trustProxy: ['127.0.0.1'] }

/** A fifth of a second of the processor. */
const REQUESTS = 2_000

/** Returns undefined, and reports it, on other systems than Linux. */
export async function gatewayContenders(
  run: Run,
  redis: RedisServer,
  settings: readonly GatewaySettings[],
): Promise<readonly Contender<Cost>[] | undefined> {
  if (!existsSync('/proc/self/schedstat')) {
    run.skipped('the gateway: needs the schedstat of Linux')
    return undefined
  }
  const folder = makeFolder()
  run.onStop(() => removeFolder(folder))
  const backend = await startBackend(run)
  const contenders: Contender<Cost>[] = []
  for (const { name, variables = [], sections = {} } of settings) {
    const processes: (() => Promise<Cost>)[] = []
    for (let at = 0; at < PROCESSES; at++) {
      const own = { ...sections, gateway }
      const { pid, port } = await startGateway(run, folder, redis, backend, variables, own)
      run.progress(`${name}: warm-up`)
      await cannonade(port, { amount: WARM_UP_REQUESTS }, { traceparent })
      processes.push(async () => {
        const before = cpuNs(pid)
        const startMs = performance.now()
        await cannonade(port, { amount: REQUESTS })
        const perSecond = (1_000 * REQUESTS) / (performance.now() - startMs)
        return { perSecond, cpuUs: (cpuNs(pid) - before) / 1_000 / REQUESTS }
      })
    }
    contenders.push(average(name, processes))
  }
  return contenders
}

/** The time of all threads on a processor. */
function cpuNs(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`)
  const timeOf = (thread: string) =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0])
  return threads.reduce((sum, thread) => sum + timeOf(thread), 0)
}
