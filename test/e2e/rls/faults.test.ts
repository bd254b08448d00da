/**
 * Redis is killed, stopped, slowed and cut off during calls: each call is answered as its rule
 * declares. The soak suite also counts the responses that come after Envoy's timeout. On a quiet
 * machine, `TIDEGATE_RELIABILITY=long` expects that there are hardly any. Service, client and stall
 * watch are processes of their own. Time without a processor does not count against the service.
 */

import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type FaultProxy, startFaultProxyProcess } from '../../support/faults/fault-proxy.ts'
import { crash, pause } from '../../support/faults/pause.ts'
import { type RedisServer, startRedis } from '../../support/servers/redis.ts'
import { until } from '../../support/servers/until.ts'
import { isSoak, sizes } from '../../support/suite.ts'
import { type DrivenCall, startCallDriver } from './call-driver.ts'
import { request } from './rls-client.ts'
import { startRlsProcess } from './rls-process.ts'
import { startTestRls, type TestRls, untilHealthy } from './rls-server.ts'
import { type Stall, stalledMs, startStallWatch } from './stall-watch.ts'

/** Windows of a year, so that none ends during a test. */
const config = `
domain: d
descriptors:
  - { key: undeclared, rate_limit: { unit: year, requests_per_unit: 100000 } }
  - { key: open, rate_limit: { unit: year, requests_per_unit: 100000, on_store_error: open } }
  - { key: closed, rate_limit: { unit: year, requests_per_unit: 100000, on_store_error: closed } }
  - { key: local, rate_limit: { unit: year, requests_per_unit: 5, on_store_error: local } }
  - { key: shadow, shadow_mode: true, rate_limit: { unit: year, requests_per_unit: 5 } }
`

const keys = ['undeclared', 'open', 'closed', 'local', 'shadow'].map((key) => {
  return { key, isSpread: key !== 'local' }
})

/** True on a machine that is quiet, as for the figures of docs/reliability.md. */
const isTimed = isSoak && process.env.TIDEGATE_RELIABILITY === 'long'

/** Envoy's default timeout. */
const ENVOY_MS = 20

/**
 * The share of late calls, for stalls that the watch misses: up to 100 of 5,000. After a stall, the
 * store has more time for a second, so that the calls before the breaker opens are late.
 */
const LATE_SHARE_MAX = 0.02

/** Without stalls of the machine: far shorter than calls would take that wait for Redis. */
const ANSWER_MS_MAX = 2_000

/** A stall that lets a reply arrive in time which is late by half a second. */
const STALL_MS_MIN = 100

const CALLS_PER_SECOND = 1_000

let redis: RedisServer
let proxy: FaultProxy

beforeEach(async () => {
  redis = await startRedis()
  proxy = await startFaultProxyProcess(redis)
})
afterEach(async () => {
  await proxy.stop()
  await redis.stop()
})

interface Observed {
  readonly calls: readonly DrivenCall[]
  readonly stalls: readonly Stall[]
  /** The metrics page of the service. */
  readonly stats: string
}

/** Sends calls while a fault happens; calls after its start are marked `during`. */
async function callsWhile(
  breakIt: () => Promise<unknown>,
  environment: Readonly<Record<string, string>> = {},
): Promise<Observed> {
  const address = { REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `${proxy.host}:${proxy.port}` }
  const rls = await startRlsProcess(config, { ...address, ...environment })
  onTestFinished(() => rls.stop())
  const plan = { port: rls.port, connections: 4, callsPerSecond: CALLS_PER_SECOND, keys }
  const driver = await startCallDriver(plan)
  onTestFinished(() => driver.end())
  const watch = await startStallWatch([rls.pid, driver.pid])
  onTestFinished(() => watch.stop())
  // The first calls run code that is not compiled yet.
  await driver.mark('first')
  await driver.sent(sizes.callsBeforeFault)
  await driver.stop()
  await driver.mark('before')
  await driver.sent(sizes.callsBeforeFault)
  await breakIt()
  await driver.mark('during')
  await driver.sent(sizes.callsDuringFault)
  const calls = await driver.stop()
  const stats = await (await fetch(`${rls.debug}/stats`)).text()
  return { calls, stalls: await watch.stalls(), stats }
}

/** Every call has a response; on a quiet machine, at most `LATE_SHARE_MAX` are late. */
function expectInTime(observed: Observed): void {
  const unanswered = observed.calls.filter(({ startMs, endMs }) => {
    return !(endMs - startMs - stalledMs(observed.stalls, startMs, endMs) <= ANSWER_MS_MAX)
  })
  expect(unanswered).toEqual([])
  if (!isSoak) return
  const late = lateOf(observed)
  console.info(`${late.length} of ${observed.calls.length} answers were late`)
  if (isTimed) expect(late.slice(Math.floor(observed.calls.length * LATE_SHARE_MAX))).toEqual([])
}

/** The calls that were late, without the time of machine stalls. */
function lateOf({ calls, stalls }: Observed) {
  const timed = calls.map(({ key, mark, startMs, endMs }) => {
    const tookMs = endMs - startMs
    return { key, mark, tookMs, ownMs: tookMs - stalledMs(stalls, startMs, endMs) }
  })
  return timed.filter(({ ownMs }) => !(ownMs <= ENVOY_MS))
}

/** The number of calls per outcome during the fault, by the key of the rule. */
function outcomesOf({ calls }: Observed) {
  const outcomes: Record<string, Record<string, number>> = {}
  for (const { key, mark, outcome } of calls) {
    if (mark !== 'during') continue
    const counts = outcomes[key] ?? {}
    counts[outcome] = (counts[outcome] ?? 0) + 1
    outcomes[key] = counts
  }
  return outcomes
}

type Outage = readonly [name: string, breakIt: () => Promise<unknown>]

const outages: Outage[] = [
  ['killed', () => crash(redis)],
  ['stopped', () => pause(redis)],
]

if (isSoak) {
  outages.push(['slowed to half a second', () => proxy.set({ latencyMs: 250 })])
  outages.push([
    'cut off again and again',
    async () => {
      await proxy.set({ refuse: true })
      await proxy.cut()
    },
  ])
}

/**
 * Whether the machine stalled during the fault. The clock of a deadline stands still meanwhile, and
 * replies that are only slow may come in time.
 */
function wasStalled({ calls, stalls }: Observed): boolean {
  const during = calls.filter(({ mark }) => mark === 'during')
  const startMs = Math.min(...during.map((one) => one.startMs))
  return stalls.some(({ fromMs, toMs }) => toMs > startMs && toMs - fromMs > STALL_MS_MIN)
}

describe.each(outages)('with Redis %s', (name, breakIt) => {
  test('every answer is as its rule declares', async () => {
    const observed = await callsWhile(breakIt)
    expectInTime(observed)
    if (name.startsWith('slowed') && wasStalled(observed)) return expectAllowed(observed)
    const { undeclared, open, closed, local, shadow } = outcomesOf(observed)
    expect(Object.keys(undeclared ?? {})).toEqual(['status 14'])
    expect(Object.keys(open ?? {})).toEqual(['OK'])
    expect(Object.keys(closed ?? {})).toEqual(['OVER_LIMIT'])
    expect(local?.OK).toBe(5)
    expect(Object.keys(local ?? {}).sort()).toEqual(['OK', 'OVER_LIMIT'])
    expect(Object.keys(shadow ?? {})).toEqual(['OK'])
    expect(observed.stats).toMatch(/should_rate_limit\.redis_error: [1-9]/)
  })
})

/** Each answer is that of the store, or that of a rule without it. */
function expectAllowed(observed: Observed): void {
  const { undeclared, open, closed, shadow } = outcomesOf(observed)
  expect(['OK', 'status 14']).toEqual(expect.arrayContaining(Object.keys(undeclared ?? {})))
  expect(['OK', 'OVER_LIMIT']).toEqual(expect.arrayContaining(Object.keys(closed ?? {})))
  expect(Object.keys(open ?? {})).toEqual(['OK'])
  expect(Object.keys(shadow ?? {})).toEqual(['OK'])
}

if (isSoak) {
  test('with Redis slowed to about the deadline, every call has an answer', async () => {
    const observed = await callsWhile(() => proxy.set({ latencyMs: 3, jitterMs: 2 }))
    expectInTime(observed)
    expectAllowed(observed)
  })

  // Skipped where stalls of the machine make as many answers late.
  test.runIf(isTimed)('a service that waits for longer is found out', async () => {
    const observed = await callsWhile(() => pause(redis), { TIDEGATE_DEADLINE: '60ms' })
    const late = lateOf(observed)
    console.info(`a deadline of 60 ms makes ${late.length} answers late`)
    expect(late.length).toBeGreaterThan(observed.calls.length * LATE_SHARE_MAX)
  })
}

async function start(): Promise<TestRls> {
  const addresses = [`${proxy.host}:${proxy.port}`]
  const rls = await startTestRls(config, { store: { mode: 'standalone', addresses } })
  await untilHealthy(rls)
  await until('calls are answered', () => rls.client.ask(request('d', ['undeclared=warm'])))
  return rls
}

test('a definite denial beats a doubtful answer', async () => {
  const rls = await start()
  await crash(redis)
  const both = request('d', ['undeclared=a'], ['closed=a'])
  const answer = await rls.client.ask(both)
  expect(answer.overall_code).toBe('OVER_LIMIT')
  expect(answer.statuses.map(({ code }) => code)).toEqual(['UNKNOWN', 'OVER_LIMIT'])
})

test('health is bad without Redis, and good again with it', async () => {
  const rls = await start()
  await until('it is serving', async () => (await rls.client.health('ratelimit')) === 'SERVING')
  await crash(redis)
  await until('it is unhealthy', async () => !(await fetch(`${rls.http}/healthcheck`)).ok)
  expect(await rls.client.health('ratelimit')).toBe('NOT_SERVING')
  await redis.restart()
  await untilHealthy(rls)
  await until('calls are answered', () => rls.client.ask(request('d', ['undeclared=a'])))
  await until('it is serving', async () => (await rls.client.health('')) === 'SERVING')
  await expect(rls.client.health('other')).rejects.toMatchObject({ code: 5 })
})
