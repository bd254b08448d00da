import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  createLimiter,
  type Decision,
  type Limiter,
  tokenBucket,
} from '../../packages/tidegate/src/index.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import { startFaultProxyProcess } from '../support/faults/fault-proxy.ts'
import { startRedis } from '../support/servers/redis.ts'
import { until } from '../support/servers/until.ts'
import { useServer } from '../support/use-server.ts'

const limit = tokenBucket({ limit: 10, per: '1h' })

/** Connecting takes several round trips, and a busy machine makes each longer. */
const connectMs = 30_000

const redis = useServer(() => startRedis())
const proxy = useServer(() => startFaultProxyProcess(redis))
const clients: Redis[] = []
const warnings: string[] = []
const onWarning = ({ message }: Error) => void warnings.push(message)

beforeAll(() => void process.on('warning', onWarning))

afterEach(() => {
  warnings.length = 0
  for (const client of clients.splice(0)) client.disconnect()
})

afterAll(() => void process.off('warning', onWarning))

/** A store on a connection of its own, through the proxy. */
function newStore() {
  const client = new Redis({ host: proxy.host, port: proxy.port })
  client.on('error', () => undefined)
  clients.push(client)
  return redisStore(client)
}

test.each([18, 40, 80])('Redis %i ms away is not an outage', async (roundTripMs) => {
  await proxy.set({ latencyMs: roundTripMs / 2 })
  const limiter = createLimiter({ limit, connectMs, store: newStore(), name: `at-${roundTripMs}` })
  const decisions: Decision[] = []
  let rounds = 0
  // Four rounds, and more if Redis or the proxy stalls: then its silence is longer than the way.
  await until('four rounds are on time', async () => {
    const round = await Promise.all(Array.from({ length: 50 }, () => limiter.check('ada')))
    decisions.push(...round)
    if (round.every(({ degraded }) => degraded === null)) rounds += 1
    return rounds === 4
  })
  const late = decisions.filter(({ degraded }) => degraded !== null)
  const admitted = decisions.filter(({ allowed, degraded }) => allowed && degraded === null)
  expect(admitted.length).toBeLessThanOrEqual(10)
  expect(admitted.length + late.length).toBeGreaterThanOrEqual(10)
  if (late.length === 0) expect(warnings).toEqual([])
})

test('a deadline below the round trip is reported at the start', async () => {
  await proxy.set({ latencyMs: 20 })
  const limiter = createLimiter({
    limit,
    connectMs,
    store: newStore(),
    deadlineMs: 15,
    name: 'short',
  })
  await limiter.ready()
  await untilWarned(
    /the round trip takes \d+ ms, the deadline is 15 ms\. Set deadlineMs to \d+ or more/,
  )
})

test('a deadline below the round trip is reported by the first decision', async () => {
  await proxy.set({ latencyMs: 20 })
  const limiter = createLimiter({
    limit,
    connectMs,
    store: newStore(),
    deadlineMs: 15,
    name: 'first',
  })
  await untilLate(limiter)
  await untilWarned(/the round trip takes \d+ ms, the deadline is 15 ms/)
})

test('a Redis beyond the longest deadline is reported with its round trip', async () => {
  await proxy.set({ latencyMs: 75 })
  const limiter = createLimiter({ limit, connectMs, store: newStore(), name: 'beyond' })
  await untilLate(limiter)
  await untilWarned(
    /the round trip takes \d{3,} ms, the deadline is 100 ms\. Set deadlineMs to \d+ or more;/,
  )
})

test('the deadline follows a Redis that moves away', async () => {
  await proxy.set({ latencyMs: 0 })
  const limiter = createLimiter({ limit, connectMs, store: newStore(), name: 'moving' })
  const isOnTime = async () => (await limiter.check('ada')).degraded === null
  await until('it is near', isOnTime)
  await proxy.set({ latencyMs: 15 })
  await until('the deadline has followed', isOnTime)
})

/** A store has more time after a stall of this process, so the first call may be on time. */
async function untilLate(limiter: Limiter<string>): Promise<void> {
  await until('a call is late', async () => {
    return (await limiter.check('ada')).degraded?.reason === 'timeout'
  })
}

async function untilWarned(pattern: RegExp): Promise<void> {
  await until(`there is a warning like ${pattern}`, () =>
    warnings.some((warning) => pattern.test(warning)),
  )
}
