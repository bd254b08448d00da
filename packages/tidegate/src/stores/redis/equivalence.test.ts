import fc from 'fast-check'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../../../test/servers/redis.ts'
import type { AlgorithmName } from '../../algorithms/algorithm.ts'
import { algorithmNames } from '../../algorithms/algorithm.ts'
import { HOLDS_MAX } from '../../algorithms/holds.ts'
import type { Limit } from '../../algorithms/limit.ts'
import { tokenBucketParams } from '../../algorithms/token-bucket.ts'
import { manualClock } from '../../clock.ts'
import { concurrency } from '../../policy/limits.ts'
import type { ChargeMode, Counter } from '../store.ts'
import { type Operation, runCohort } from './equivalence-contract.ts'
import { RedisKeys } from './redis-key.ts'
import { redisStore } from './redis-store.ts'

let server: RedisServer
let client: Redis

beforeAll(async () => {
  server = await startRedis()
  client = new Redis(server.url)
})

afterAll(async () => {
  await client?.quit()
  await server?.stop()
})

const HOUR_MS = 3_600_000

/** Of histories in each, for each of eight kinds: 12,800 histories together. */
const COHORTS = 50

const HISTORIES = 32

/** Then a failure is told with what has been shrunk by then. */
const PATIENCE_MS = 60_000

const STEPS = 12

const periods = fc.constantFrom(600_000, 777_777, HOUR_MS, HOUR_MS + 1, 24 * HOUR_MS)

const units = fc.oneof(
  { weight: 1, arbitrary: fc.constant(0) },
  { weight: 8, arbitrary: fc.integer({ min: 1, max: 40 }) },
  { weight: 2, arbitrary: fc.integer({ min: 1, max: 5_000 }) },
)

const calendars = fc.record({
  unit: fc.constantFrom('day' as const, 'week' as const, 'month' as const),
  timeZone: fc.constantFrom('UTC', 'Europe/Berlin', 'America/St_Johns', 'Pacific/Auckland'),
})

const windows = (algorithm: 'slidingWindow' | 'slidingLog') =>
  fc.record({ algorithm: fc.constant(algorithm), limit: units, perMs: periods })

const limitsOf: Record<AlgorithmName, fc.Arbitrary<Limit>> = {
  tokenBucket: fc
    .tuple(units, periods, fc.oneof(units, fc.integer({ min: 800_000, max: 20_000_000 })))
    .map(([limit, perMs, burst]) => tokenBucketParams(limit, perMs, Math.max(1, burst))),
  slidingWindow: windows('slidingWindow'),
  slidingLog: windows('slidingLog'),
  fixedWindow: fc.record({
    algorithm: fc.constant('fixedWindow' as const),
    limit: units,
    per: fc.oneof({ weight: 4, arbitrary: periods }, { weight: 1, arbitrary: calendars }),
  }),
  concurrency: fc.record({
    algorithm: fc.constant('concurrency' as const),
    limit: units,
    ttlMs: fc.constant(HOUR_MS),
  }),
}

/** A step before it is known what the limits of its history are. */
const steps = fc.record({
  kind: fc.constantFrom('charge', 'charge', 'charge', 'hold', 'settle', 'adjust', 'burst', 'reset'),
  mode: fc.constantFrom<ChargeMode>('all', 'all', 'partial', 'peek'),
  key: fc.constantFrom('one', 'other'),
  /** Which of the limits apply, where there are several, and in which variant. */
  isAlone: fc.boolean(),
  variant: fc.nat({ max: 3 }),
  costs: fc.array(units, { minLength: 3, maxLength: 3 }),
  sign: fc.constantFrom(1, -1),
  ttlMs: fc.constantFrom(60_000, 600_000, HOUR_MS, 2 * HOUR_MS),
  /** A hold that was made so many steps ago. */
  ago: fc.integer({ min: 1, max: 6 }),
  times: fc.integer({ min: 2, max: 9 }),
})

type Step = typeof steps extends fc.Arbitrary<infer T> ? T : never

const moves = fc.oneof(
  { weight: 2, arbitrary: fc.constant(0) },
  { weight: 4, arbitrary: fc.nat({ max: 5_000 }) },
  { weight: 4, arbitrary: fc.nat({ max: HOUR_MS }) },
  { weight: 2, arbitrary: fc.constantFrom(60_000, 599_999, 600_000, HOUR_MS - 1, 24 * HOUR_MS) },
  { weight: 1, arbitrary: fc.constantFrom(HOUR_MS, -HOUR_MS) },
  { weight: 1, arbitrary: fc.integer({ min: -5_000, max: -1 }) },
)

/** What may be asked of histories with these algorithms, one limit of each per history. */
function cohorts(algorithms: readonly AlgorithmName[]) {
  const pools = algorithms.map((name) => fc.array(limitsOf[name], { minLength: 2, maxLength: 2 }))
  return fc
    .record({
      startMs: fc.integer({ min: Date.UTC(2023, 0), max: Date.UTC(2030, 0) }),
      moves: fc.array(moves, { minLength: STEPS, maxLength: STEPS }),
      pools: fc.tuple(...pools),
      histories: fc.array(fc.array(steps, { minLength: STEPS, maxLength: STEPS }), {
        minLength: HISTORIES,
        maxLength: HISTORIES,
        size: 'max',
      }),
    })
    .map(({ pools: limits, histories, ...cohort }) => ({
      ...cohort,
      histories: histories.map((history, number) =>
        history.map((step, at) => operationOf(step, at, `${number}`, limits)),
      ),
    }))
}

function operationOf(step: Step, at: number, history: string, pools: Limit[][]): Operation {
  // The first of two variants mostly, so that limits change now and then.
  const variant = step.variant === 3 ? 1 : 0
  const key = `${history} ${step.key}`
  const all = pools.map((pool, place) => ({ name: `${place}`, limit: pool[variant] as Limit, key }))
  const counters = step.isAlone ? all.slice(0, 1) : all
  const costOf = (place: number) => step.costs[place] ?? 0
  const holdIdAt = (other: number) => `${history}/${other}`
  const hold = { id: holdIdAt(at), ttlMs: step.ttlMs }
  const [first] = counters as [Counter]
  switch (step.kind) {
    case 'settle': {
      const release = holdIdAt(at - step.ago)
      const group = counters.map((one, place) => ({ ...one, units: costOf(place), release }))
      return { kind: 'adjust', group }
    }
    case 'adjust': {
      const group = counters.map((one, place) => ({ ...one, units: step.sign * costOf(place) }))
      return { kind: 'adjust', group }
    }
    case 'reset':
      return { kind: 'reset', group: counters }
    case 'burst':
      if (first.limit.algorithm === 'concurrency') break
      return { kind: 'burst', charge: { ...first, cost: costOf(0) }, times: step.times }
  }
  const group = counters.map((one, place) => {
    const charge = { ...one, cost: costOf(place) }
    // Nothing is used of slots but by holding them.
    const isHeld = step.kind === 'hold' || one.limit.algorithm === 'concurrency'
    return isHeld ? { ...charge, hold } : charge
  })
  return { kind: 'charge', group, mode: step.mode }
}

const groups: readonly (readonly AlgorithmName[])[] = [
  ['tokenBucket', 'concurrency'],
  ['tokenBucket', 'fixedWindow', 'slidingLog'],
  ['slidingWindow', 'tokenBucket', 'concurrency'],
]

const kinds = [...algorithmNames.map((name) => [name]), ...groups]

describe('Redis decides and keeps what the pure functions do, whatever the history', () => {
  it.each(kinds.map((names) => [names.join(' + '), names] as const))(
    '%s',
    async (_, names) => {
      await fc.assert(
        fc.asyncProperty(cohorts(names), (cohort) => runCohort(client, cohort)),
        { numRuns: COHORTS, interruptAfterTimeLimit: PATIENCE_MS, markInterruptAsFailure: true },
      )
    },
    2 * PATIENCE_MS,
  )
})

describe('Redis decides and keeps what the pure functions do', () => {
  it('for levels of more digits than Lua writes by itself', async () => {
    const limit = tokenBucketParams(10 ** 12, HOUR_MS, 2 * 10 ** 14)
    const charge = (cost: number): Operation => {
      const group = [{ name: 'wide', limit, key: 'key', cost }]
      return { kind: 'charge', group, mode: 'all' }
    }
    const costs = [123_456_789_012_345, 7, 76_543_210_987_649, 1, 99_999_999]
    const history = costs.map(charge)
    const moves = [0, 1, 1_001, 0, 12_345_677]
    await runCohort(client, { startMs: Date.UTC(2026, 0), moves, histories: [history] })
  })

  it('up to the most holds of a key, and denies one more until the first expires', async () => {
    const clock = manualClock()
    const store = redisStore(client, { clock, prefix: 'full' })
    const limit = concurrency({ limit: HOLDS_MAX, ttl: '1h' })
    const key = new RedisKeys('full').of('slots', 'concurrency', 'key')
    const seed = `
      local holds = {}
      for at = 1, ARGV[1] do holds[at] = { 'seed' .. at, 0, 60000, ARGV[2] + 60000 } end
      return redis.call('SET', KEYS[1], cmsgpack.pack(holds), 'PX', 60000)`
    await client.eval(seed, 1, key, HOLDS_MAX - 1, clock.now())
    clock.advance(1_000)
    const charge = { name: 'slots', limit, key: 'key', cost: 1 }
    const hold = (id: string) => store.charge([{ ...charge, hold: { id, ttlMs: HOUR_MS } }], 'all')
    const last = { allowed: true, granted: 1, remaining: HOLDS_MAX - 1, resetAfterMs: HOUR_MS }
    expect(await hold('last')).toMatchObject([last])
    const denied = { allowed: false, granted: 0, retryAfterMs: 59_000 }
    expect(await hold('more')).toMatchObject([denied])
  })
})
