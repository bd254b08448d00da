import { afterEach, beforeEach, expect, test } from 'vitest'
import { createLimiter, fixedWindow } from '../../packages/tidegate/src/index.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import { startFaultProxyProcess } from '../support/faults/fault-proxy.ts'
import { startLoad } from '../support/faults/load.ts'
import { figuresOf } from '../support/faults/load-report.ts'
import { patient } from '../support/patience.ts'
import { patientClientKinds } from '../support/servers/clients.ts'
import { startRedis } from '../support/servers/redis.ts'
import { until } from '../support/servers/until.ts'
import { useServer } from '../support/use-server.ts'
import { LIMIT_NAME, sumOf, usedByKey } from './counters.ts'
import {
  allChecks,
  checksFrom,
  clients,
  clientsOf,
  expectCountedOnce,
  expectOnTime,
  isAllowed,
  isLong,
  last,
  normalAfterMs,
  untilNormal,
} from './scenario.ts'
import { tellFault } from './table.ts'

const KEYS = 10
const LOST = 3

const numbers = Array.from({ length: KEYS }, (_, number) => number)

const limit = fixedWindow({ limit: 1_000_000, per: '30d', accuracy: 'exact' })

const redis = useServer(() => startRedis())
const proxy = useServer(() => startFaultProxyProcess(redis))

beforeEach(async () => void (await redis.command('FLUSHALL')))
afterEach(() => proxy.clear())

test.each(patientClientKinds)('$name: a charge whose reply is lost is made once', async (kind) => {
  const connected = await kind.single({ ...proxy, password: undefined, tls: undefined })
  const store = redisStore(connected.client)
  const limiter = createLimiter({ limit, store, ...patient, breaker: { callsMin: 1000 } })
  const isAnswered = async (key: string) => (await limiter.check(key)).degraded === null
  await until('the client is connected', () => isAnswered('other'))
  for (let count = 0; count < LOST; count++) {
    await proxy.set({ cutAfterRequest: { times: 1 } })
    const { allowed, degraded } = await limiter.check('key')
    expect([allowed, degraded?.reason]).toEqual([true, 'unreachable'])
    await until('the client is connected again', () => isAnswered('other'))
  }
  expect((await limiter.peek('key')).remaining).toBe(1_000_000 - LOST)
  connected.close()
})

test.each(clientsOf('node-redis 6'))(
  '%s: of what resets leave unknown, nothing counts twice',
  async (client) => {
    const load = await startLoad({
      client,
      redis: proxy,
      limits: { [LIMIT_NAME]: limit },
      keys: KEYS,
    })
    await last(1000)
    load.mark('resets')
    const rounds = Array.from({ length: isLong ? 20 : 4 }, (_, round) => `over ${round}`)
    for (const [round, over] of rounds.entries()) {
      await proxy.set(
        round % 2 === 0 ? { cutAfterRequest: {} } : { resetMidReply: { afterBytes: 7 } },
      )
      await last(100)
      await proxy.clear()
      load.mark(over)
      await untilNormal(load)
    }
    load.mark('over')
    const report = await load.stop()

    const normalMs = Math.max(...rounds.map((over) => normalAfterMs(report, over)))
    const fault = 'connections reset after the request'
    const figures = figuresOf(checksFrom(report, 'resets', 'over'))
    tellFault({ fault, client, normalAfterMs: normalMs }, figures)
    expectOnTime(report)
    expect(allChecks(report).every(isAllowed)).toBe(true)
    expectCountedOnce(report, sumOf(await usedByKey(redis, limit, numbers)))
    expect(figures.degraded['unreachable/open']).toBeGreaterThan(0)
  },
)

test('ioredis 6: a connection that leads nowhere is left for another', async () => {
  const client = clients[0]
  const load = await startLoad({
    client,
    redis: proxy,
    limits: { [LIMIT_NAME]: limit },
    keys: KEYS,
  })
  await last(1000)
  load.mark('frozen')
  await proxy.freeze()
  await untilNormal(load)
  const report = await load.stop()
  const normalMs = normalAfterMs(report, 'frozen')
  const checks = checksFrom(report, 'frozen')
  const fault = 'connection that leads nowhere'
  tellFault({ fault, client, normalAfterMs: normalMs }, figuresOf(checks))
  expectOnTime(report)
  expect(checks.every(isAllowed)).toBe(true)
})
