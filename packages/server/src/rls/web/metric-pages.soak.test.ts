/** Pages of metrics stay bounded, whatever values requests bring, and do not delay calls. */

import { expect, test } from 'vitest'
import { type RequestMessage, request } from '../../../../../test/e2e/rls/rls-client.ts'
import { startTestRls } from '../../../../../test/e2e/rls/rls-server.ts'

const config = `
domain: shop
descriptors:
  - key: agent
    detailed_metric: true
    rate_limit: { unit: hour, requests_per_unit: 1000000 }
`

const CALLS = 1_100
const PAGE_BYTES_MAX = 1_300_000

/** A call of nearly the maximum size: 15 entries of 4 KB with different values. */
function longOverride(at: number): RequestMessage {
  const value = `${at} "\\\n${'x'.repeat(4_100)}`
  const entries = Array.from({ length: 15 }, (_, place) => ({ key: `k${place}`, value }))
  const limit = { requests_per_unit: 5, unit: 'HOUR' }
  return { domain: 'shop', descriptors: [{ entries, limit }] }
}

test.each([
  ['limits that requests bring', longOverride],
  ['a detailed metric', (at: number) => request('shop', [`agent=${at}${'"'.repeat(8_000)}`])],
  ['domains that do not exist', (at: number) => request(`${at}${'"'.repeat(8_000)}`, ['a=b'])],
])('pages stay below 1.3 MB after 1,100 calls with long values in %s', async (_, call) => {
  const { client, debug } = await startTestRls(config)
  for (let at = 0; at < CALLS; at += 1) await client.ask(call(at))
  const sizes = await Promise.all(
    ['/metrics', '/stats'].map(async (path) => {
      const response = await fetch(`${debug}${path}`)
      return (await response.arrayBuffer()).byteLength
    }),
  )
  expect(Math.max(...sizes)).toBeLessThan(PAGE_BYTES_MAX)
  expect(Math.min(...sizes)).toBeGreaterThan(1_000)
})

test('a page of 140,000 lines does not delay calls', async () => {
  const rules = Array.from({ length: 20 }, (_, at) => `  - key: k${at}\n    detailed_metric: true`)
  const limit = '\n    rate_limit: { unit: hour, requests_per_unit: 1000000 }'
  const lines = ['domain: shop', 'descriptors:', ...rules.map((rule) => rule + limit)]
  const { client, debug } = await startTestRls(lines.join('\n'))
  for (let at = 0; at < 1_000; at += 1) {
    const descriptors = rules.map((_, rule) => [`k${rule}=${at}`])
    await client.ask(request('shop', ...descriptors))
  }
  let isRead = false
  let bytes = 0
  const page = fetch(`${debug}/metrics`).then(async (response) => {
    for await (const chunk of response.body ?? []) bytes += chunk.length
    isRead = true
  })
  let responses = 0
  while (!isRead) {
    await client.ask(request('shop', ['k0=1']))
    responses += 1
  }
  await page
  expect(bytes).toBeGreaterThan(10_000_000)
  // A page written in one turn of the event loop would let at most one call in between.
  expect(responses).toBeGreaterThan(20)
})
