/** The lines of decisions: the same fields from every door. */

import { describe, expect, test } from 'vitest'
import { logEvents } from '../../../packages/server/src/observability/event-log.ts'
import type { ServiceEvent } from '../../../packages/server/src/observability/events.ts'
import type { LogLine } from '../../../packages/server/src/observability/log-line.ts'
import { messageLines } from '../../../packages/server/src/observability/logger.ts'
import { startMeteredService } from '../metrics/metered-service.ts'
import { request, rlsClient } from '../rls/rls-client.ts'
import { startTestRls } from '../rls/rls-server.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const ids = { 'x-request-id': 'id-1', traceparent: `00-${TRACE}-00f067aa0ba902b7-01` }
const SECRET = 'canary-5ecre7'

function capture() {
  const lines: LogLine[] = []
  const emit = logEvents((line) => void lines.push(line))
  const decisions = () => lines.filter(({ event }) => event === 'ratelimit.decision')
  const values = (): Record<string, unknown>[] =>
    decisions().map(({ level, fields: own }) => ({ level, ...own }))
  return { emit, decisions: values }
}

/** Fields of spec 3, section 6.5, beside `ts`, `level` and `event`. */
const fields = [
  ...['trace_id', 'client_id', 'api_key_hash', 'endpoint', 'outcome', 'reason', 'counter', 'limit'],
  ...['window_sec', 'reset_at', 'fallback', 'store_ms', 'region', 'node_id'],
]

const limits = [{ name: 'one', key: 'apiKey', otherwise: 'ip', limit: 1, per: '1m' }]

const digest = expect.stringMatching(/^hmac-sha256:[0-9a-f]{16}$/)

describe('the lines of decisions', () => {
  test('have the same fields from every door', async () => {
    const { emit, decisions } = capture()
    const log = { sampleAllowed: 1, nodeId: 'node-7' }
    const service = await startMeteredService({ limits, log, region: 'eu-1' }, {}, emit)
    const check = { request: { method: 'POST', path: '/pay', identity: { apiKey: SECRET } } }
    const entries = { apiKey: SECRET, method: 'POST', path: '/pay' }
    await service.check(check, ids)
    await service.check(check, ids)
    await service.askRls(entries, ids)
    const address = service.service.rateLimitService?.addresses.grpc
    const client = rlsClient(address && 'port' in address ? address.port : 0)
    const call = request('shop', [`apiKey=${SECRET}`, 'method=POST', 'path=/pay'])
    await client.ask(call, { metadata: ids })
    client.close()
    await service.ask('/pay', { 'x-api-key': SECRET, ...ids })
    await service.ask('/pay', { 'x-api-key': SECRET, ...ids })
    const lines = decisions()
    expect(lines.map(({ door, outcome }) => `${door} ${outcome}`)).toEqual([
      ...['decision_api allowed', 'decision_api denied', 'rls denied', 'rls denied'],
      ...['gateway allowed', 'gateway denied'],
    ])
    for (const line of lines) {
      expect(Object.keys(line)).toEqual(expect.arrayContaining(fields))
      expect(line).toMatchObject({
        ...{ trace_id: TRACE, client_id: digest, api_key_hash: digest, key_hash: digest },
        ...{ limit_name: 'one', counter: 1, limit: 1, window_sec: 60, fallback: false },
        ...{ region: 'eu-1', node_id: 'node-7', policy: expect.stringMatching(/./) },
      })
    }
    // One client has one digest behind all doors, and one counter.
    expect(new Set(lines.slice(0, 4).map(({ key_hash }) => key_hash)).size).toBe(1)
    expect(lines.slice(0, 4).map(({ request_id }) => request_id)).toEqual(Array(4).fill('id-1'))
    // The gateway does not trust this client.
    expect(lines[4]?.request_id).not.toBe('id-1')
    expect(JSON.stringify(lines)).not.toContain(SECRET)
  })

  test('of calls with Envoy files have digests, and no text of a descriptor', async () => {
    const config =
      'domain: shop\ndescriptors:\n  - key: remote_address\n' +
      '    rate_limit: { unit: hour, requests_per_unit: 1 }\n'
    const { client, events, http } = await startTestRls(config, { logLevel: 'info' })
    const call = request('shop', ['remote_address=203.0.113.7'])
    const metadata = { 'x-request-id': 'no id', traceparent: 'canary' }
    await client.ask(call)
    await client.ask(call)
    await fetch(`${http}/json`, {
      method: 'POST',
      headers: ids,
      body: JSON.stringify(call),
    }).then((response) => response.arrayBuffer())
    await client.ask(call, { metadata })
    const lines: string[] = []
    const write = (text: string) => void lines.push(text)
    const emit = logEvents(messageLines({ level: 'info', format: 'json', name: 'rls', write }))
    for (const event of events as readonly ServiceEvent[]) {
      if (event.type === 'decision' && event.line.outcome === 'denied') emit(event)
    }
    const parsed = lines.map((line) => JSON.parse(line))
    expect(parsed.map(({ request_id, trace_id }) => [request_id, trace_id])).toEqual([
      [null, null],
      ['id-1', TRACE],
      [null, null],
    ])
    expect(parsed[0]).toMatchObject({
      ...{ door: 'rls', level: 'info', client_id: digest, api_key_hash: null, endpoint: null },
      ...{ counter: 1, limit: 1, window_sec: 3_600, key_hash: digest },
    })
    expect(lines.join('')).not.toMatch(/203\.0\.113|canary|no id/)
  })
})
