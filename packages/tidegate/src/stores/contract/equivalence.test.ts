import { Cluster, Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { fc } from '../../../../../test/support/fast-check.ts'
import { startCluster } from '../../../../../test/support/servers/cluster.ts'
import { type RedisServer, startRedis } from '../../../../../test/support/servers/redis.ts'
import { sizes } from '../../../../../test/support/suite.ts'
import type { AlgorithmName } from '../../algorithms/algorithm.ts'
import { algorithmNames } from '../../algorithms/algorithm.ts'
import { HOLDS_MAX } from '../../algorithms/holds.ts'
import type { Limit } from '../../algorithms/limit.ts'
import { tokenBucketParams } from '../../algorithms/token-bucket.ts'
import { manualClock } from '../../clock.ts'
import { concurrency } from '../../limits/limits.ts'
import { bucketTags } from '../redis/buckets.ts'
import { redisStore } from '../redis/redis-store.ts'
import type { Charge, ChargeMode, Counter } from '../store.ts'
import {
  type Cohort,
  type GroupOperation,
  type Operation,
  runCohort,
} from './equivalence-contract.ts'

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

const HISTORIES = 32

/** Then a busy machine has run enough cohorts, and a failure is told as it was shrunk by then. */
const PATIENCE_MS = 60_000

const runs = { numRuns: sizes.equivalenceCohorts, interruptAfterTimeLimit: PATIENCE_MS }

/** An interrupted cohort goes on, so it is awaited: the next test uses the same server and keys. */
async function assertAll(cohort: fc.Arbitrary<Cohort>, run: (cohort: Cohort) => Promise<void>) {
  let running = Promise.resolve()
  const property = fc.asyncProperty(cohort, (one) => {
    running = run(one)
    return running
  })
  try {
    await fc.assert(property, runs)
  } finally {
    await running.catch(() => {})
  }
}

const STEPS = 12

const periods = fc.constantFrom(600_000, 777_777, HOUR_MS, HOUR_MS + 1, 24 * HOUR_MS)

const units = fc.oneof(
  { weight: 1, arbitrary: fc.constant(0) },
  { weight: 8, arbitrary: fc.integer({ min: 1, max: 40 }) },
  { weight: 2, arbitrary: fc.integer({ min: 1, max: 5_000 }) },
)

/** Limits that leave room for tens of holds are needed more often than costs as high. */
const limitSizes = fc.oneof(
  { weight: 2, arbitrary: units },
  { weight: 1, arbitrary: fc.integer({ min: 100, max: 20_000 }) },
)

const calendars = fc.record({
  unit: fc.constantFrom('day' as const, 'week' as const, 'month' as const),
  timeZone: fc.constantFrom('UTC', 'Europe/Berlin', 'America/St_Johns', 'Pacific/Auckland'),
})

const windows = (algorithm: 'slidingWindow' | 'slidingLog') =>
  fc.record({ algorithm: fc.constant(algorithm), limit: limitSizes, perMs: periods })

const limitsOf: Record<AlgorithmName, fc.Arbitrary<Limit>> = {
  tokenBucket: fc
    .tuple(units, periods, fc.oneof(limitSizes, fc.integer({ min: 800_000, max: 20_000_000 })))
    .map(([limit, perMs, burst]) => tokenBucketParams(limit, perMs, Math.max(1, burst))),
  slidingWindow: windows('slidingWindow'),
  slidingLog: windows('slidingLog'),
  fixedWindow: fc.record({
    algorithm: fc.constant('fixedWindow' as const),
    limit: limitSizes,
    per: fc.oneof({ weight: 4, arbitrary: periods }, { weight: 1, arbitrary: calendars }),
  }),
  concurrency: fc.record({
    algorithm: fc.constant('concurrency' as const),
    limit: limitSizes,
    ttlMs: fc.constant(HOUR_MS),
  }),
}

const ttls = [60_000, 600_000, HOUR_MS, 2 * HOUR_MS] as const

const kindsOfStep = [
  ...(['charge', 'charge', 'charge', 'hold', 'holds', 'settle', 'settleSome'] as const),
  ...(['renew', 'renewSome'] as const),
  ...(['adjust', 'burst', 'reset', 'lease', 'lease'] as const),
]

/** A step before it is known what the limits of its history are. */
const steps = fc.record({
  kind: fc.constantFrom(...kindsOfStep),
  mode: fc.constantFrom<ChargeMode>('all', 'all', 'partial', 'peek'),
  key: fc.constantFrom('one', 'other'),
  /** Which of the limits apply, where there are several, and in which variant. */
  isAlone: fc.boolean(),
  variant: fc.nat({ max: 3 }),
  costs: fc.array(units, { minLength: 3, maxLength: 3 }),
  sign: fc.constantFrom(1, -1),
  ttlMs: fc.constantFrom(...ttls),
  /** Holds that were made so many steps ago. */
  ago: fc.integer({ min: 1, max: 6 }),
  /** How many holds at once, of how much each, and every how many of them differs from the rest. */
  count: fc.integer({ min: 2, max: 40 }),
  heldUnits: fc.constantFrom(0, 1, 1, 1, 2, 3, 4_094, 4_095, 5_000),
  oddEvery: fc.integer({ min: 1, max: 5 }),
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

/** Leases that follow each other, as a process takes them of a hot key, and charges in between. */
const leaseSteps = fc
  .tuple(steps, fc.constantFrom<Step['kind']>('lease', 'lease', 'lease', 'charge', 'burst'))
  .map(([step, kind]) => {
    const ttlMs = step.variant === 1 ? step.ttlMs : 600_000
    const part = { key: 'one', mode: kind === 'lease' ? 'partial' : 'all' } as const
    return { ...step, ...part, kind, ttlMs, ago: step.ago > 4 ? 2 : 1 }
  })

const leaseMoves = fc.oneof(
  { weight: 8, arbitrary: fc.nat({ max: 5_000 }) },
  { weight: 1, arbitrary: fc.constantFrom(599_999, 600_000, -1) },
)

/** Charges of whole groups, which have a fast path, and now and then a hold that needs another. */
const groupSteps = fc
  .tuple(steps, fc.constantFrom<Step['kind']>('charge', 'charge', 'charge', 'charge', 'hold'))
  .map(([step, kind]): Step => {
    // Few shapes, because each has a command of its own.
    const costs = step.costs.map((cost) => 1 + (cost % 2))
    return { ...step, kind, costs, mode: 'all', isAlone: step.variant === 2 && step.isAlone }
  })

/** What may be asked of histories with these algorithms, one limit of each per history. */
function cohorts(
  algorithms: readonly AlgorithmName[],
  step: fc.Arbitrary<Step> = steps,
  move: fc.Arbitrary<number> = moves,
) {
  const pools = algorithms.map((name) => fc.array(limitsOf[name], { minLength: 2, maxLength: 2 }))
  return fc
    .record({
      startMs: fc.integer({ min: Date.UTC(2023, 0), max: Date.UTC(2030, 0) }),
      moves: fc.array(move, { minLength: STEPS, maxLength: STEPS }),
      pools: fc.tuple(...pools),
      histories: fc.array(fc.array(step, { minLength: STEPS, maxLength: STEPS }), {
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
  const holdIdAt = (other: number, number = 0) => `${history}/${other}/${number}`
  const hold = { id: holdIdAt(at), ttlMs: step.ttlMs }
  const [first] = counters as [Counter]
  switch (step.kind) {
    case 'holds': {
      const operations = Array.from({ length: step.count }, (_, number): GroupOperation => {
        const own = { id: holdIdAt(at, number), ...oddOrNot(step, number) }
        const group = counters.map((one) => ({ ...one, cost: own.cost, hold: own }))
        return { kind: 'charge', group, mode: 'all' }
      })
      return { kind: 'several', operations }
    }
    case 'settle': {
      const release = holdIdAt(at - step.ago)
      const group = counters.map((one, place) => ({ ...one, units: costOf(place), release }))
      return { kind: 'adjust', group }
    }
    case 'settleSome': {
      const operations = Array.from({ length: step.count }, (_, number): GroupOperation => {
        const release = holdIdAt(at - step.ago, number * step.oddEvery)
        const group = counters.map((one) => ({ ...one, units: number % 2, release }))
        return { kind: 'adjust', group }
      })
      return { kind: 'several', operations }
    }
    case 'renew': {
      const renews = { id: holdIdAt(at - step.ago), ttlMs: step.ttlMs }
      return { kind: 'adjust', group: counters.map((one) => ({ ...one, units: 0, renews })) }
    }
    case 'renewSome': {
      const operations = Array.from({ length: step.count }, (_, number): GroupOperation => {
        const ttlMs = number % step.oddEvery === 0 ? step.ttlMs : HOUR_MS
        const renews = { id: holdIdAt(at - step.ago, number * step.oddEvery), ttlMs }
        return { kind: 'adjust', group: counters.map((one) => ({ ...one, units: 0, renews })) }
      })
      return { kind: 'several', operations }
    }
    case 'adjust': {
      const group = counters.map((one, place) => ({ ...one, units: step.sign * costOf(place) }))
      return { kind: 'adjust', group }
    }
    case 'lease':
      if (!isLeasable(first.limit)) break
      return leaseOf({ ...first, cost: costOf(0) }, step, (other) => `!${holdIdAt(other)}`, at)
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

/** Logs and slots are never leased. */
function isLeasable({ algorithm }: Limit): boolean {
  return algorithm !== 'slidingLog' && algorithm !== 'concurrency'
}

/** A lease, which mostly settles the one before, or one that is not known. */
function leaseOf(charge: Charge, step: Step, idAt: (at: number) => string, at: number): Operation {
  const leased = { ...charge, hold: { id: idAt(at), ttlMs: step.ttlMs } }
  if (!step.isAlone) return { kind: 'charge', group: [leased], mode: step.mode }
  const settles = { release: idAt(at - step.ago), units: step.costs[1] ?? 0 }
  return { kind: 'charge', group: [{ ...leased, settles }], mode: 'partial' }
}

/** The cost and the ttl of one of many holds. */
function oddOrNot({ heldUnits, ttlMs, oddEvery }: Step, number: number) {
  if (number % oddEvery > 0) return { cost: heldUnits, ttlMs }
  return { cost: number % 3, ttlMs: ttls[number % ttls.length] as number }
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
      await assertAll(cohorts(names), (cohort) => runCohort(client, cohort))
    },
    2 * PATIENCE_MS,
  )

  it.each([
    ['leases of token buckets that follow each other', ['tokenBucket'], leaseSteps, leaseMoves],
    ['groups of three token buckets', Array(3).fill('tokenBucket'), groupSteps, moves],
  ] as const)(
    '%s',
    async (_, names, step, move) => {
      await assertAll(cohorts(names, step, move), (cohort) => runCohort(client, cohort))
    },
    2 * PATIENCE_MS,
  )
})

describe('a cluster decides and keeps what the pure functions do, whatever the history', () => {
  it(
    'tokenBucket + fixedWindow + slidingLog',
    async () => {
      const cluster = await startCluster({ masters: 3, replicasPerMaster: 0 })
      onTestFinished(() => cluster.stop())
      const master = new Redis((await cluster.masterOf(bucketTags(1)[0] ?? '')).url)
      const clients = new Cluster([...cluster.addresses])
      onTestFinished(() => {
        for (const one of [master, clients]) one.disconnect()
      })
      await assertAll(cohorts(['tokenBucket', 'fixedWindow', 'slidingLog']), (cohort) =>
        runCohort(master, cohort, clients),
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

  it.each(algorithmNames)('for hundreds of holds that expire at many times: %s', async (name) => {
    // Ahead by less and by more than a ttl, back by less and by more, and until all is over.
    const jumps = [0, 1_000, 30_000, 500_000, -200_000, 0, -HOUR_MS, 100_000, HOUR_MS, 0, HOUR_MS]
    const moves = jumps.flatMap((moveMs) => [moveMs, 0, 0, 0])
    const histories = [jumps.flatMap((_, at) => manyHolds(limitForMany[name], at))]
    await runCohort(client, { startMs: Date.UTC(2026, 0), moves, histories })
  })

  it('up to the most holds of a key, and denies one more until the first expires', async () => {
    const clock = manualClock()
    const store = redisStore(client, { clock, prefix: 'full', timeoutMs: 10_000 })
    const charge = {
      name: 'slots',
      limit: concurrency({ limit: HOLDS_MAX, ttl: '1h' }),
      key: 'key',
    }
    const hold = (id: string, cost: number, ttlMs: number) =>
      store.charge([{ ...charge, cost, hold: { id, ttlMs } }], 'all')
    const first = Array.from({ length: HOLDS_MAX - 1 }, (_, at) => hold(`first ${at}`, 0, 60_000))
    await Promise.all(first)
    clock.advance(1_000)
    const last = { allowed: true, granted: 1, remaining: HOLDS_MAX - 1, resetAfterMs: HOUR_MS }
    expect(await hold('last', 1, HOUR_MS)).toMatchObject([last])
    const denied = { allowed: false, granted: 0, retryAfterMs: 59_000 }
    expect(await hold('more', 1, HOUR_MS)).toMatchObject([denied])
  })
})

const limitForMany: Record<AlgorithmName, Limit> = {
  tokenBucket: tokenBucketParams(900, HOUR_MS, 900),
  slidingWindow: { algorithm: 'slidingWindow', limit: 900, perMs: HOUR_MS },
  slidingLog: { algorithm: 'slidingLog', limit: 900, perMs: HOUR_MS },
  fixedWindow: { algorithm: 'fixedWindow', limit: 900, per: HOUR_MS },
  concurrency: { algorithm: 'concurrency', limit: 900, ttlMs: HOUR_MS },
}

/** Many holds, costs that have to wait for few or many of them, releases, and the costs again. */
function manyHolds(limit: Limit, at: number): Operation[] {
  const counter = { name: 'many', limit, key: 'key' }
  const holds = Array.from({ length: 200 }, (_, number) => {
    const ttlMs = ttls[(at + number) % (at % 2 === 0 ? 1 : ttls.length)] as number
    const hold = { id: `${at}/${number}`, ttlMs: ttlMs + (number % 7) * 1_000 }
    return charge({ ...counter, cost: 1 + (number % 3), hold }, 'all')
  })
  const looks = [1, 2, 50, 300, 600, 899, 900, 901].map((cost) =>
    charge({ ...counter, cost, hold: { id: `look ${cost}`, ttlMs: HOUR_MS } }, 'peek'),
  )
  const releases = Array.from({ length: 60 }, (_, number): GroupOperation => {
    const release = `${Math.max(0, at - (number % 3))}/${(number * 7) % 200}`
    return { kind: 'adjust', group: [{ ...counter, units: number % 2, release }] }
  })
  return [holds, looks, releases, looks].map((operations) => ({ kind: 'several', operations }))
}

function charge(one: Charge, mode: ChargeMode): GroupOperation {
  return { kind: 'charge', group: [one], mode }
}
