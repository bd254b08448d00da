/** The fields of log lines, and data that is never logged. */

import { request } from 'undici'
import { describe, expect, test } from 'vitest'
import { until } from '../../support/servers/until.ts'
import { openAbsentStore } from './absent-store.ts'
import { sendRaw } from './raw-client.ts'
import { startTestGateway } from './test-gateway.ts'
import { startRawUpstream, startUpstream } from './test-upstream.ts'

const limits = [
  {
    name: 'key_limit',
    key: 'apiKey',
    otherwise: 'ip',
    limit: 1,
    per: '1h',
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
      door: 'gateway',
      request_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      trace_id: '4bf92f3577b34da6a3ce929d0e0e4736',
      client_id: expect.stringMatching(/^hmac-sha256:[0-9a-f]{16}$/),
      api_key_hash: expect.stringMatching(/^hmac-sha256:[0-9a-f]{16}$/),
      endpoint: 'POST /v1/charges',
      outcome: 'denied',
      reason: 'key_limit',
      limit_name: 'key_limit',
      key_hash: expect.stringMatching(/^hmac-sha256:[0-9a-f]{16}$/),
      counter: 1,
      limit: 1,
      window_sec: 3_600,
      reset_at: expect.stringMatching(/Z$/),
      fallback: false,
      store_ms: 0,
      policy: null,
      region: 'eu-west-1',
      node_id: 'node-7',
    })
    expect(gateway.loggedText()).not.toContain(CANARY)
    expect(gateway.loggedText()).not.toContain('127.0.0.1')
  })

  test('has a share of the admitted requests', async () => {
    const gateway = await start({ sampleAllowed: 1 })
    await ask(gateway.url)
    const [line] = gateway.logged()
    expect(line).toMatchObject({ outcome: 'allowed', reason: null, counter: 1, store_ms: 0 })
    expect(line?.upstream_ms).toBeGreaterThan(0)
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
    const REFUSED = 60
    for (let count = 0; count <= REFUSED; count += 1) await ask(gateway.url)
    const of = (name: string) => gateway.logged().filter(({ event }) => event === name)
    const written = () => of('ratelimit.decision').length
    const missing = () => of('log.left_out').reduce((sum, { count }) => sum + Number(count), 0)
    // The last ones are told when their second is over.
    await until('it says how many', () => written() + missing() >= REFUSED)
    expect(written() + missing()).toBe(REFUSED)
    expect(missing()).toBeGreaterThan(0)
  })

  test('keeps data of clients in one line', async () => {
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

  test('has no counter if nothing was counted', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway(
      {
        upstreams: { api: { targets: [upstream.url] } },
        limits: [{ name: 'all', key: 'everyone', limit: 5, per: '1h', onStoreError: 'closed' }],
      },
      { store: await openAbsentStore() },
    )
    expect(await ask(gateway.url)).toBe(503)
    const [line] = gateway.logged()
    expect(line).toMatchObject({ outcome: 'unavailable', limit_name: 'all', limit: 5 })
    expect(line).not.toHaveProperty('counter')
    expect(line).not.toHaveProperty('reset_at')
  })

  test('has the time that the upstream took, beside that of the store', async () => {
    const DELAY_MS = 300
    const upstream = await startUpstream((_request, response) => {
      setTimeout(() => response.end(), DELAY_MS)
    })
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url] } },
      limits,
      log: { sampleAllowed: 1 },
    })
    await ask(gateway.url)
    const [line] = gateway.logged()
    expect(line?.store_ms).toBeLessThan(DELAY_MS)
    // A timer may be a millisecond early.
    expect(line?.upstream_ms).toBeGreaterThan(DELAY_MS - 10)
  })

  test('has a line for a response that breaks off', async () => {
    const upstream = await startRawUpstream((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n')
    })
    const gateway = await startTestGateway({
      upstreams: { events: { targets: [upstream.url], timeouts: { idle: '200ms' } } },
      log: { nodeId: 'node-7' },
    })
    const { statusCode, body } = await request(`${gateway.url}/events`)
    expect(statusCode).toBe(200)
    await expect(body.text()).rejects.toThrow()
    const cut = gateway.logged().filter(({ event }) => event === 'gateway.cut_off')
    expect(cut).toMatchObject([
      {
        level: 'warn',
        endpoint: 'GET /events',
        upstream: 'events',
        target: upstream.url,
        status: 200,
        reason: 'UPSTREAM_IDLE_TIMEOUT',
        node_id: 'node-7',
      },
    ])
  })

  test('has no line for a response that its client aborts', async () => {
    const upstream = await startRawUpstream((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n')
      socket.on('close', () => void closed.resolve())
    })
    const closed = Promise.withResolvers<void>()
    const gateway = await startTestGateway({ upstreams: { api: { targets: [upstream.url] } } })
    const { body } = await request(gateway.url)
    body.on('error', () => undefined).destroy()
    await closed.promise
    expect(gateway.logged().filter(({ level }) => level === 'warn')).toEqual([])
  })
})
