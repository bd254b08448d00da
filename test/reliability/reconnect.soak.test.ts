import { expect, test } from 'vitest'
import { tokenBucket } from '../../packages/tidegate/src/index.ts'
import { startFaultProxyProcess } from '../support/faults/fault-proxy.ts'
import { startLoad } from '../support/faults/load.ts'
import { figuresOf } from '../support/faults/load-report.ts'
import { crash } from '../support/faults/pause.ts'
import { startRedis } from '../support/servers/redis.ts'
import { until } from '../support/servers/until.ts'
import { useServer } from '../support/use-server.ts'
import {
  checksFrom,
  clientsOf,
  durationMs,
  expectOnTime,
  last,
  lasting,
  normalAfterMs,
  phaseOf,
  untilNormal,
} from './scenario.ts'
import { tellFault } from './table.ts'

const CLIENTS = 50
const PROCESSES = 2

/** A stall that can join attempts of different moments. */
const STALL_MS = 100

const wide = tokenBucket({ limit: 1_000_000, per: '1s', accuracy: 'exact' })

const redis = useServer(() => startRedis())
const proxy = useServer(() => startFaultProxyProcess(redis))

test.each(clientsOf('ioredis 6'))('%s: fifty clients come back one by one', async (client) => {
  const load = await startLoad({
    client,
    redis: proxy,
    limits: { wide },
    keys: 100,
    connections: CLIENTS / PROCESSES,
    processes: PROCESSES,
    guard: { breaker: { openMs: 500 } },
  })
  await last(1000)
  load.mark('killed')
  await crash(redis)
  await last(lasting(2000, 10_000))
  await redis.restart()
  load.mark('back')
  await untilNormal(load, 0)
  load.mark('stable')
  await last(1000)
  await until('all clients are connected', async () => (await proxy.traffic()).open === CLIENTS)
  const { acceptedAtMs, longestTurnMs } = await proxy.traffic()
  const report = await load.stop()

  const fault = `Redis killed for 10 s, ${CLIENTS} clients` as const
  const figures = figuresOf(checksFrom(report, 'killed', 'back'))
  tellFault({ fault, client, normalAfterMs: normalAfterMs(report, 'back') }, figures)
  const attemptsMs = (from: string, to?: string) => {
    const toMs = to === undefined ? Number.POSITIVE_INFINITY : phaseOf(report, to).startedMs
    const { startedMs } = phaseOf(report, from)
    return acceptedAtMs.filter((atMs) => atMs >= startedMs && atMs < toMs)
  }
  const attempts = attemptsMs('back')
  const spreadMs = Math.max(...attempts) - Math.min(...attempts)
  const perSecond =
    (attemptsMs('killed', 'back').length * 1000) / durationMs(report, 'killed', 'back')
  console.log(`${client}: ${perSecond.toFixed(0)} attempts per second while Redis was down,`)
  console.log(`then ${attempts.length} connections within ${spreadMs.toFixed(0)} ms`)
  expectOnTime(report)
  // Attempts that were spread come together at a process that stalled, or from one.
  const stalledMs = Math.max(longestTurnMs, ...report.phases.map((each) => each.loopDelayMaxMs))
  if (stalledMs < STALL_MS) expect(mostWithin(attempts, 100)).toBeLessThan(CLIENTS * 0.8)
  // Some clients reconnect after a stall. Without a delay between attempts, there are thousands.
  expect(attempts.length).toBeLessThan(CLIENTS * 4)
  expect(attemptsMs('stable').length).toBeLessThanOrEqual(CLIENTS)
})

/** The largest number of these times within one span. */
function mostWithin(timesMs: readonly number[], spanMs: number): number {
  const counts = timesMs.map((from) => timesMs.filter((to) => to >= from && to < from + spanMs))
  return Math.max(...counts.map(({ length }) => length))
}
