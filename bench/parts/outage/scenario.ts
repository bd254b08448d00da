/** Runs one kind of outage several times, with all limiters at the same time. */

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { startFaultProxyProcess } from '../../../test/support/faults/fault-proxy.ts'
import { machineNowMs } from '../../../test/support/faults/machine-clock.ts'
import { startRedis } from '../../../test/support/servers/redis.ts'
import { forkReady } from '../../harness/child.ts'
import type { Run } from '../../harness/part.ts'
import {
  type Outage,
  type OutageFigure,
  outageFigure,
  outageNames,
  type RequestResult,
  type Scenario,
} from './figures.ts'

export interface OutageTimes {
  readonly rounds: number
  readonly warmUpMs: number
  readonly outageMs: number
  /** How long the limiters are observed after the outage. */
  readonly afterMs: number
}

interface Fault {
  /** The URL of the server, or of the proxy in front of it. */
  readonly url: string
  begin(): Promise<void>
  end(): Promise<void>
}

/** The latency of the scenario `slow`. */
const FAR_MS = 200

export async function runScenario(
  run: Run,
  scenario: Scenario,
  times: OutageTimes,
): Promise<ReadonlyMap<string, readonly OutageFigure[]>> {
  run.progress(`${scenario.title}: starts the limiters`)
  const fault = await startFault(run, scenario)
  const children = await Promise.all(outageNames.map((name) => start(run, name, fault.url)))
  await delay(times.warmUpMs)
  const outages: Outage[] = []
  for (let round = 1; round <= times.rounds; round++) {
    run.progress(`${scenario.title}: outage ${round} of ${times.rounds}`)
    outages.push(await outage(fault, times))
  }
  const results = await Promise.all(children.map(resultsOf))
  for (const child of children) child.disconnect()
  return new Map(
    outageNames.map((name, at) => [
      name,
      outages.map((each) => outageFigure(each, results[at] ?? [])),
    ]),
  )
}

async function startFault(run: Run, { name }: Scenario): Promise<Fault> {
  const redis = await startRedis()
  run.onStop(() => redis.stop())
  if (name === 'killed') {
    const begin = async () => redis.kill('SIGKILL')
    return { url: redis.url, begin, end: () => redis.restart() }
  }
  if (name === 'stopped') {
    const begin = async () => redis.kill('SIGSTOP')
    return { url: redis.url, begin, end: async () => redis.kill('SIGCONT') }
  }
  const proxy = await startFaultProxyProcess(redis)
  run.onStop(() => proxy.stop())
  return {
    url: proxy.url,
    begin: () => proxy.set({ replies: { latencyMs: FAR_MS } }),
    end: () => proxy.clear(),
  }
}

async function start(run: Run, name: string, url: string): Promise<ChildProcess> {
  const program = new URL('./contender.ts', import.meta.url)
  const { child } = await forkReady(run, program, [name, url])
  return child
}

async function outage(fault: Fault, { outageMs, afterMs }: OutageTimes): Promise<Outage> {
  const startedMs = machineNowMs()
  await fault.begin()
  await delay(outageMs)
  await fault.end()
  const endedMs = machineNowMs()
  await delay(afterMs)
  return { startedMs, endedMs, watchedUntilMs: machineNowMs() }
}

async function resultsOf(child: ChildProcess): Promise<RequestResult[]> {
  child.send('report')
  const [results] = (await once(child, 'message')) as [RequestResult[]]
  return results
}
