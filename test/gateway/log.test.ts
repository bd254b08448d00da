/** What is logged, and what is not. */

import { request } from 'undici'
import { describe, expect, test } from 'vitest'
import { until } from '../servers/until.ts'
import { sendRaw } from './raw-client.ts'
import { startTestGateway } from './test-gateway.ts'
import { startUpstream } from './test-upstream.ts'

const limits = [
  {
    name: 'key_limit',
    key: 'apiKey',
    otherwise: 'ip',
    limit: 1,
    per: '1m',
    algorithm: 'fixedWindow',
  },
]

async function start(log: object, others: object = {}) {
  const upstream = await startUpstream()
  return startTestGateway({
    region: 'eu-west-1',
    upstreams: { api: { targets: [upstream.url] } },
    limits,
    log: { nodeId: 'node-7', ...log },
    ...others,
  })
}

async function ask(url: string, headers: Record<string, string> = {}): Promise<number> {
  const { statusCode, body } = await request(url, { method: 'POST', headers })
  await body.dump()
  return statusCode
}

const CANARY = 'canary-4f1d'

describe('the log', () => {
  test('has a line for every refusal, with everything but who it was', async () => {
    const gateway = await start({ sampleAllowed: 0 })
    const headers = {
      'x-api-key': CANARY,
      traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
      authorization: `Bearer ${CANARY}`,
      cookie: `session=${CANARY}`,
    }
    expect(await ask(`${gateway.url}/v1/charges?token=${CANARY}`, headers)).toBe(200)
    expect(await ask(`${gateway.url}/v1/charges?token=${CANARY}`, headers)).toBe(429)
    const lines = gateway.logged()
    expect(lines).toHaveLength(1)
    expect(lines[0]).toEqual({
      ts: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      level: 'info',
      event: 'ratelimit.decision',
      trace_id: '4bf92f3577b34da6a3ce929d0e0e4736',
      client_id: expect.stringMatching(/^sha256:[0-9a-f]{16}$/),
      api_key_hash: expect.stringMatching(/^sha256:[0-9a-f]{16}$/),
      endpoint: 'POST /v1/charges',
      outcome: 'denied',
      reason: 'key_limit',
      limit_name: 'key_limit',
      counter: 1,
      limit: 1,
      window_sec: 60,
      reset_at: expect.stringMatching(/Z$/),
      fallback: false,
      backend_ms: 0,
      region: 'eu-west-1',
      node_id: 'node-7',
    })
    expect(gateway.loggedText()).not.toContain(CANARY)
    expect(gateway.loggedText()).not.toContain('127.0.0.1')
  })

  test('has a share of what was admitted', async () => {
    const gateway = await start({ sampleAllowed: 1 })
    await ask(gateway.url)
    expect(gateway.logged()).toMatchObject([{ outcome: 'allowed', reason: null, counter: 1 }])
  })

  test('has refusals that are no decision of a limit', async () => {
    const gateway = await start({}, { ipLists: { deny: ['127.0.0.1'] } })
    await ask(gateway.url)
    await sendRaw(gateway.port, 'GET /%2f HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    expect(gateway.logged()).toMatchObject([
      { event: 'gateway.refused', status: 403, endpoint: 'POST /' },
      { event: 'gateway.refused', status: 400 },
    ])
  })

  test('writes a bounded number of lines, and how many it left out', async () => {
    const gateway = await start({ linesPerSecondMax: 3, sampleAllowed: 0 })
    for (let count = 0; count < 11; count += 1) await ask(gateway.url)
    const leftOut = () => gateway.logged().filter(({ event }) => event === 'log.left_out')
    await until('it says how many', () => leftOut().length > 0)
    const decisions = gateway.logged().filter(({ event }) => event === 'ratelimit.decision')
    const missing = leftOut().reduce((sum, { count }) => sum + Number(count), 0)
    expect(decisions.length + missing).toBe(10)
    expect(missing).toBeGreaterThan(0)
  })

  test('keeps what clients send in one line', async () => {
    const gateway = await start({ sampleAllowed: 1 })
    const fields = `traceparent: \x1b[31m\r\nX-Api-Key: a"b\\c\x1b\r\nConnection: close`
    await sendRaw(gateway.port, `GET /"%1 HTTP/1.1\r\nHost: a\r\n${fields}\r\n\r\n`)
    await sendRaw(gateway.port, `GET /%22x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
    const lines = gateway.loggedText().trimEnd().split('\n')
    expect(lines.length).toBe(gateway.logged().length)
    expect(gateway.loggedText()).not.toContain('\x1b')
  })

  test.each([
    ['no request', 'hello\r\n\r\n', 400],
    ['too large a head', `GET / HTTP/1.1\r\nX: ${CANARY.repeat(2_000)}\r\n\r\n`, 431],
  ])('has a line for what is %s, and nothing of it', async (_name, bytes, status) => {
    const gateway = await start({ sampleAllowed: 0 })
    expect(await sendRaw(gateway.port, bytes)).toContain(`HTTP/1.1 ${status} `)
    const lines = gateway.logged()
    expect(lines).toMatchObject([{ event: 'gateway.refused', status, endpoint: null }])
    expect(JSON.stringify(lines)).not.toContain(CANARY)
  })
})
