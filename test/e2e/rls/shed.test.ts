/** Responses of an overloaded rate limit service. */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { until } from '../../support/servers/until.ts'
import { startTestRls, type TestRls } from './rls-server.ts'

const config = `
domain: shop
descriptors:
  - key: tenant
    rate_limit: { unit: hour, requests_per_unit: 100 }
`

const call = { domain: 'shop', descriptors: [{ entries: [{ key: 'tenant', value: 'a' }] }] }

const json = { method: 'POST', body: JSON.stringify(call) }

const UNAVAILABLE = 14

/** Blocks the event loop, which the service shares with the test. */
async function blockLoop(turns: number, turnMs: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) {
    const endMs = performance.now() + turnMs
    while (performance.now() < endMs);
    await nextTurn()
  }
}

async function isShed({ client }: TestRls): Promise<boolean> {
  const answer = await client.ask(call).catch((error: { code: number; details: string }) => error)
  if ('overall_code' in answer) return false
  expect(answer).toMatchObject({ code: UNAVAILABLE, details: 'the service is overloaded' })
  return true
}

test.for(['own', 'node'] as const)(
  '%s: too many calls in flight are UNAVAILABLE',
  async (transport) => {
    const rls = await startTestRls(config, { callsMax: 0, transport })
    expect(await isShed(rls)).toBe(true)
    expect(await rls.client.health('')).toBe('SERVING')
    const response = await fetch(`${rls.http}/json`, json)
    expect([response.status, await response.text()]).toEqual([503, 'the service is overloaded\n'])
    expect((await fetch(`${rls.http}/healthcheck`)).status).toBe(200)
    const stats = await (await fetch(`${rls.debug}/stats`)).text()
    expect(stats).toContain('ratelimit.service.call.should_rate_limit.overloaded: 2')
  },
)

describe('a late event loop', () => {
  test('sheds calls, answers health checks, and takes calls again when it is on time', async () => {
    const rls = await startTestRls(config, { overloadDelayMs: 100 })
    expect(await isShed(rls)).toBe(false)
    await blockLoop(3, 500)
    expect(await isShed(rls)).toBe(false)
    await blockLoop(12, 500)
    expect(await isShed(rls)).toBe(true)
    expect(await rls.client.health('')).toBe('SERVING')
    await until('calls are taken', async () => !(await isShed(rls)))
  })

  test('sheds nothing for a single pause', async () => {
    const rls = await startTestRls(config, { overloadDelayMs: 50 })
    await blockLoop(1, 1_000)
    expect(await isShed(rls)).toBe(false)
  })
})
