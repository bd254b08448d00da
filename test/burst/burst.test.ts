/**
 * Many calls at once on a healthy, idle Redis and with default options. Load is not an outage: each
 * key is admitted exactly as often as its limit says, and no decision is degraded.
 */

import { isDeepStrictEqual } from 'node:util'
import { describe, expect, test } from 'vitest'
import { startRedis } from '../support/servers/redis.ts'
import { useServer } from '../support/use-server.ts'
import { burstClientNames } from './burst-clients.ts'
import { burstInProcess } from './burst-process.ts'
import { type BurstCounts, countsOf, exact } from './burst-report.ts'
import type { BurstOrder, BurstResult } from './burst-run.ts'
import { burstOnHealthyRedis } from './burst-witness.ts'
import type { BurstPlan } from './burst-worker.ts'

/** Far more than calls may wait at the same time, so that most must be shed. */
const FLOOD_CALLS = 120_000

/** Retry hints that are all alike would bring the whole flood back at the same moment. */
const SHED_WAITS_MIN = 10

const redis = useServer(() => startRedis())
/** The counts of a burst, each with counters of its own. */
async function countsOn(
  given: Omit<BurstPlan, 'addresses'>,
  order: BurstOrder,
  expectedOf: (result: BurstResult) => BurstCounts,
): Promise<BurstResult> {
  const result = await burstOnHealthyRedis(
    [{ host: redis.host, port: redis.port }],
    (number) => burstInProcess(plan(given), { ...order, name: `${order.name}-${number}` }),
    (each) => isDeepStrictEqual(countsOf(each), expectedOf(each)),
  )
  expect(countsOf(result)).toEqual(expectedOf(result))
  return result
}

function plan(given: Omit<BurstPlan, 'addresses'>): BurstPlan {
  const { host, port } = redis
  return { addresses: [{ host, port }], ...given }
}

describe('10,000 calls at once of a warm process', () => {
  const warm = { client: 'ioredis', limit: 3, isWarm: true } as const

  test.for([
    { keys: 1, asksPerKey: 10_000, admitted: 3 },
    { keys: 2_000, asksPerKey: 5, admitted: 6_000 },
  ])('on $keys keys admit $admitted', async ({ keys, asksPerKey, admitted }) => {
    const order = { name: `warm-${keys}`, keys, asksPerKey, pace: 'at-once' } as const
    await countsOn(warm, order, () => ({ ...exact, calls: 10_000, admitted }))
  })
})

describe('the first calls of a process, all at once', () => {
  const sizes = [
    { calls: 500, limit: 100 },
    { calls: 2_000, limit: 3 },
  ]
  const cases = sizes.flatMap((size) => [
    ...burstClientNames.map((client) => ({ ...size, client, method: 'check' as const })),
    { ...size, client: 'ioredis' as const, method: 'evaluate' as const },
  ])

  test.for(cases)('$calls by $method with $client admit $limit', async (given) => {
    const { calls, limit, client, method } = given
    const name = `first-${calls}-${client}-${method}`
    const order = { name, keys: 1, asksPerKey: calls, pace: 'at-once' } as const
    const first = { client, limit, method, isWarm: false }
    await countsOn(first, order, () => ({ ...exact, calls, admitted: limit }))
  })
})

describe('more calls at once than may wait', () => {
  test.for([
    { keys: FLOOD_CALLS, asksPerKey: 1 },
    { keys: 1, asksPerKey: FLOOD_CALLS },
  ])('on $keys keys are judged or shed, and none is admitted over the limit', async (size) => {
    const order = { name: `flood-${size.keys}`, ...size, pace: 'at-once' } as const
    const warm = { client: 'ioredis', limit: 3, isWarm: true } as const
    const { shed, shedWaits } = await countsOn(warm, order, (result) => ({
      ...exact,
      calls: FLOOD_CALLS,
      admitted: size.keys === 1 ? 3 : FLOOD_CALLS - result.shed,
      degraded: result.shed === 0 ? {} : { 'overloaded, shed: denied': result.shed },
    }))
    if (size.keys > 1) expect(shed).toBeGreaterThan(0)
    if (shed >= 100 * SHED_WAITS_MIN) expect(shedWaits).toBeGreaterThan(SHED_WAITS_MIN)
  })
})
