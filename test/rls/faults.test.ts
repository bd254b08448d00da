/** Redis killed, stopped and slowed: every call has an answer in time, as its rule declares. */

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type FaultProxy, startFaultProxyProcess } from '../faults/fault-proxy.ts'
import { crash, pause } from '../faults/pause.ts'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import { until } from '../servers/until.ts'
import { type RlsClient, request } from './rls-client.ts'
import { startTestRls, type TestRls, untilHealthy } from './rls-server.ts'

const config = `
domain: d
descriptors:
  - { key: undeclared, rate_limit: { unit: hour, requests_per_unit: 100000 } }
  - { key: open, rate_limit: { unit: hour, requests_per_unit: 100000, on_store_error: open } }
  - { key: closed, rate_limit: { unit: hour, requests_per_unit: 100000, on_store_error: closed } }
  - { key: local, rate_limit: { unit: hour, requests_per_unit: 5, on_store_error: local } }
  - { key: shadow, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 5 } }
`

/** What Envoy waits for. */
const ENVOY_MS = 20

/** What may be later than that where the machine, and not the service, holds a call up. */
const LATE_SHARE_MAX = 0.05

const CALLS = 60

let redis: RedisServer
let proxy: FaultProxy
let rls: TestRls

beforeEach(async () => {
  redis = await startRedis()
  proxy = await startFaultProxyProcess(redis)
})
afterEach(async () => {
  await proxy.stop()
  await redis.stop()
})

async function start(): Promise<void> {
  const addresses = [`${proxy.host}:${proxy.port}`]
  rls = await startTestRls(config, { store: { mode: 'standalone', addresses } })
  await untilHealthy(rls)
  await until('calls are answered', () => rls.client.ask(request('d', ['undeclared=warm'])))
}

interface Outcomes {
  readonly counts: Record<string, number>
  readonly lateShare: number
}

/** One call after the other, of so many keys of a rule: its codes or the status it failed with. */
async function callsOf(client: RlsClient, key: string, value: (at: number) => string) {
  const counts: Record<string, number> = {}
  let late = 0
  for (let at = 0; at < CALLS; at++) {
    const startMs = performance.now()
    const outcome = await client
      .ask(request('d', [`${key}=${value(at)}`]))
      .then(({ overall_code }) => overall_code as string)
      .catch(({ code }) => `status ${code}`)
    if (performance.now() - startMs > ENVOY_MS) late++
    counts[outcome] = (counts[outcome] ?? 0) + 1
  }
  return { counts, lateShare: late / CALLS } satisfies Outcomes
}

const faults: Readonly<Record<string, () => Promise<unknown>>> = {
  killed: () => crash(redis),
  stopped: () => pause(redis),
  'slowed to half a second': () => proxy.set({ latencyMs: 250 }),
  'cut off again and again': async () => {
    await proxy.set({ refuse: true })
    await proxy.cut()
  },
}

describe.each(Object.entries(faults))('with Redis %s', (_, breakIt) => {
  const many = (at: number) => `v${at}`

  test('a rule that declares nothing fails the call, for Envoy to decide', async () => {
    await start()
    await breakIt()
    const { counts, lateShare } = await callsOf(rls.client, 'undeclared', many)
    expect(counts).toEqual({ 'status 14': CALLS })
    expect(lateShare).toBeLessThanOrEqual(LATE_SHARE_MAX)
    const stats = await (await fetch(`${rls.debug}/stats`)).text()
    expect(stats).toMatch(/should_rate_limit\.redis_error: [1-9]/)
  })

  test('open admits, closed refuses, local counts here, shadow never refuses', async () => {
    await start()
    await breakIt()
    const open = await callsOf(rls.client, 'open', many)
    const closed = await callsOf(rls.client, 'closed', many)
    const local = await callsOf(rls.client, 'local', () => 'one')
    const shadow = await callsOf(rls.client, 'shadow', many)
    expect(open.counts).toEqual({ OK: CALLS })
    expect(closed.counts).toEqual({ OVER_LIMIT: CALLS })
    expect(local.counts).toEqual({ OK: 5, OVER_LIMIT: CALLS - 5 })
    expect(shadow.counts).toEqual({ OK: CALLS })
    const lateShare = [open, closed, local, shadow].reduce((sum, one) => sum + one.lateShare, 0) / 4
    expect(lateShare).toBeLessThanOrEqual(LATE_SHARE_MAX)
  })
})

test('a definite denial beats a doubtful answer', async () => {
  await start()
  await crash(redis)
  const both = request('d', ['undeclared=a'], ['closed=a'])
  const answer = await rls.client.ask(both)
  expect(answer.overall_code).toBe('OVER_LIMIT')
  expect(answer.statuses.map(({ code }) => code)).toEqual(['UNKNOWN', 'OVER_LIMIT'])
})

test('health is bad without Redis, and good again with it', async () => {
  await start()
  expect(await rls.client.health('ratelimit')).toBe('SERVING')
  await crash(redis)
  await until('it is unwell', async () => !(await fetch(`${rls.http}/healthcheck`)).ok)
  expect(await rls.client.health('ratelimit')).toBe('NOT_SERVING')
  await redis.restart()
  await untilHealthy(rls)
  await until('calls are answered', () => rls.client.ask(request('d', ['undeclared=a'])))
  expect(await rls.client.health('')).toBe('SERVING')
  await expect(rls.client.health('other')).rejects.toMatchObject({ code: 5 })
})
