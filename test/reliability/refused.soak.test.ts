/** A Redis that refuses commands: out of memory, with too many clients, or without our scripts. */

import { afterEach, expect, test } from 'vitest'
import { fixedWindow } from '../../packages/tidegate/src/index.ts'
import { dial } from '../support/faults/dial.ts'
import { startFaultProxyProcess } from '../support/faults/fault-proxy.ts'
import { startLoad } from '../support/faults/load.ts'
import { figuresOf } from '../support/faults/load-report.ts'
import { machineNowMs } from '../support/faults/machine-clock.ts'
import { patient } from '../support/patience.ts'
import { startRedis } from '../support/servers/redis.ts'
import { until } from '../support/servers/until.ts'
import { sizes } from '../support/suite.ts'
import { useServer } from '../support/use-server.ts'
import { LIMIT_NAME, sumOf, usedByKey } from './counters.ts'
import {
  allChecks,
  checksFrom,
  clientsOf,
  expectCountedOnce,
  expectOnTime,
  isAllowed,
  isOfStore,
  last,
  lasting,
  normalAfterMs,
  untilDegraded,
  untilNormal,
} from './scenario.ts'
import { tellFault } from './table.ts'

const KEYS = 10
const FLUSH_INTERVAL_MS = 50
const CLIENTS_MAX = 1000

const numbers = Array.from({ length: KEYS }, (_, number) => number)
const limit = fixedWindow({ limit: 1_000_000, per: '30d', accuracy: 'exact' })
const guard = { breaker: { openMs: 500 } }

const redis = useServer(() => startRedis())
const proxy = useServer(() => startFaultProxyProcess(redis))

afterEach(async () => {
  await redis.command('CONFIG', 'SET', 'maxmemory', 0)
  await redis.command('FLUSHALL')
})

test.each(clientsOf('ioredis 6'))(
  '%s: a full Redis does not deny, and no charge is partial',
  async (client) => {
    const limits = { one: limit, other: limit }
    const load = await startLoad({ client, redis, limits, keys: KEYS, guard })
    await last(1000)
    load.mark('full')
    await redis.command('CONFIG', 'SET', 'maxmemory', 1)
    const fullMs = machineNowMs()
    await last(lasting(1000, 5000))
    await untilDegraded(load, fullMs)
    await redis.command('CONFIG', 'SET', 'maxmemory', 0)
    load.mark('room')
    await untilNormal(load)
    const report = await load.stop()

    const normalMs = normalAfterMs(report, 'room')
    const figures = figuresOf(checksFrom(report, 'full', 'room'))
    tellFault({ fault: '`maxmemory` reached', client, normalAfterMs: normalMs }, figures)
    expectOnTime(report)
    expect(figures.allowed).toBe(figures.made)
    expect(figures.degraded['store-error/open']).toBeGreaterThan(0)
    const one = await usedByKey(redis, limit, numbers, 'one')
    expect(await usedByKey(redis, limit, numbers, 'other')).toEqual(one)
    expectCountedOnce(report, sumOf(one))
  },
)

test.each(clientsOf('node-redis 6'))(
  '%s: who finds no place at Redis is not held up',
  async (client) => {
    const load = await startLoad({
      client,
      redis: proxy,
      limits: { wide: limit },
      keys: KEYS,
      guard,
    })
    await last(1000)
    load.mark('crowded')
    // Open connections stay, so this one has the only slot from now on.
    const first = dial(redis)
    first.send('CONFIG SET maxclients 1\r\n')
    await until('there is one place', () => first.received === '+OK\r\n')
    await proxy.cut()
    const cutMs = machineNowMs()
    await last(lasting(1000, 5000))
    await untilDegraded(load, cutMs)
    first.send(`CONFIG SET maxclients ${CLIENTS_MAX}\r\n`)
    await until('there is room', () => first.received === '+OK\r\n+OK\r\n')
    load.mark('room')
    await untilNormal(load)
    first.close()
    const report = await load.stop()

    const normalMs = normalAfterMs(report, 'room')
    const figures = figuresOf(checksFrom(report, 'crowded', 'room'))
    tellFault({ fault: '`maxclients` reached', client, normalAfterMs: normalMs }, figures)
    expectOnTime(report)
    expect(figures.allowed).toBe(figures.made)
    expect(figures.degraded['unreachable/open']).toBeGreaterThan(0)
    expect(normalMs).toBeLessThan(sizes.normalAgainMsMax)
  },
)

test.each(clientsOf('node-redis 6'))(
  '%s: forgotten scripts fail no check and count none twice',
  async (client) => {
    // Long enough for a busy machine, because this test is about counts.
    const plan = { keys: KEYS, guard: patient, isPatient: true }
    const limits = { [LIMIT_NAME]: limit }
    const load = await startLoad({ client, redis, limits, ...plan })
    await last(1000)
    load.mark('flushed')
    const endMs = machineNowMs() + lasting(1000, 10_000)
    while (machineNowMs() < endMs) {
      await redis.command('SCRIPT', 'FLUSH')
      await last(FLUSH_INTERVAL_MS)
    }
    const report = await load.stop()

    const checks = checksFrom(report, 'flushed')
    const fault = '`SCRIPT FLUSH` every 50 ms'
    tellFault({ fault, client, normalAfterMs: undefined }, figuresOf(checks))
    expect(allChecks(report).every((check) => isAllowed(check) && isOfStore(check))).toBe(true)
    expect(sumOf(await usedByKey(redis, limit, numbers))).toBe(allChecks(report).length)
  },
)
