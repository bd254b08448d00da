/** The log has no secrets of clients, and clients cannot inject lines into it. */

import { createHmac } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openRaw, sendRaw } from '../e2e/gateway/raw-client.ts'
import { type RedisServer, startRedis } from '../support/servers/redis.ts'
import { until } from '../support/servers/until.ts'
import { type ProbedGateway, startProbedGateway } from './probed-gateway.ts'
import { okWith, startRecordingUpstream } from './recording-upstream.ts'

/** A secret for each place, so that a leaked one shows its source. */
const canary = (place: string) => `canary-${place}-5ecre7`

const HMAC_SECRET = canary('hmac')
const KNOWN_KEY = canary('known-key')

const stops: (() => unknown)[] = []
let redis: RedisServer
let gateway: ProbedGateway

beforeAll(async () => {
  const atEnd = (stop: () => unknown) => void stops.push(stop)
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-hardening-'))
  stops.push(() => rmSync(folder, { recursive: true, force: true }))
  redis = await startRedis({ acl: [`user gateway on >${canary('redis')} ~* +@all`] })
  stops.push(() => redis.stop())
  const upstream = await startRecordingUpstream(({ target }) => {
    if (target.startsWith('/broken')) return `HTTP/1.1 ${canary('upstream')}\r\n\r\n`
    if (target.startsWith('/cut')) return 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\nx: \x01\r\n\r\n'
    return okWith(canary('body'))
  }, atEnd)
  const hmac = createHmac('sha256', HMAC_SECRET).update(KNOWN_KEY).digest('hex')
  writeFileSync(join(folder, 'keys.yaml'), JSON.stringify([{ hmac, id: 'key_1', tier: 'free' }]))
  writeFileSync(join(folder, 'jwks.json'), JSON.stringify({ keys: [] }))
  const policy = {
    log: { level: 'trace', sampleAllowed: 1, linesPerSecondMax: 100_000 },
    store: {
      mode: 'standalone',
      addresses: [`${redis.host}:${redis.port}`],
      username: 'gateway',
      password: { env: 'CANARY_REDIS' },
      deadline: '2s',
    },
    auth: {
      apiKeys: { secret: { env: 'CANARY_HMAC' }, file: join(folder, 'keys.yaml') },
      jwt: { jwksFile: join(folder, 'jwks.json') },
    },
    gateway: { timeouts: { headers: '1s', request: '1s', keepAlive: '1s' } },
    upstreams: {
      api: { targets: [upstream.url] },
      away: { targets: ['http://127.0.0.1:1'] },
    },
    routes: [{ match: { path: '/away' }, upstream: 'away' }, { upstream: 'api' }],
    tiers: {
      names: ['free'],
      default: 'free',
      lookup: { url: 'http://127.0.0.1:1/tiers/{key}', by: 'apiKey' },
    },
    limits: [
      { name: 'few', match: { path: '/few' }, key: 'apiKey', otherwise: 'ip', limit: 1, per: '1h' },
      { name: 'key', key: 'apiKey', otherwise: 'skip', limit: 9_999, per: '1h' },
      { name: 'sid', key: { header: 'cookie' }, otherwise: 'skip', limit: 9_999, per: '1h' },
    ],
  }
  const environment = { CANARY_REDIS: canary('redis'), CANARY_HMAC: HMAC_SECRET }
  gateway = await startProbedGateway(policy, { atEnd, environment })
})

afterAll(async () => {
  for (const stop of stops.reverse()) await stop()
})

const fields = [
  'Host: a.example',
  `Cookie: sid=${canary('cookie')}`,
  `X-Secret: ${canary('header')}`,
  `User-Agent: ${canary('agent')}`,
  `Referer: https://a.example/?token=${canary('referer')}`,
  `X-Forwarded-For: ${canary('address')}`,
  `traceparent: 00-${canary('trace')}-00-01`,
  `Proxy-Authorization: Basic ${canary('proxy')}`,
]

const request = (target: string, ...others: string[]) =>
  `${[`GET ${target} HTTP/1.1`, ...fields, 'Connection: close', ...others].join('\r\n')}\r\n\r\n`

const chunked = 'Transfer-Encoding: chunked'
const known = `X-Api-Key: ${KNOWN_KEY}`

/** Every way in which a request can end. */
const requests = [
  request(`/?token=${canary('query')}`, known),
  request(`/few?token=${canary('query')}`, known),
  request(`/few?token=${canary('query')}`, known),
  request('/', `X-Api-Key: ${canary('unknown-key')}`),
  request('/', `Authorization: Bearer ${canary('token')}`),
  request('/', `Authorization: Basic ${canary('basic')}`),
  request(`/broken?x=${canary('query')}`, known),
  request(`/cut?x=${canary('query')}`, known),
  request(`/away?x=${canary('query')}`, known),
  request(`/x/..;/?x=${canary('query')}`),
  request(`/a%00b?x=${canary('query')}`),
  request(`http://${canary('user')}:x@a.example/`),
  request('/', 'Connection: X-Forwarded-For'),
  request('/', `Host: ${canary('host')}`),
  request('/', `X: ${canary('large')}${'x'.repeat(17_000)}`),
  request('/', `Content-Length: ${canary('length')}`),
  request('/', `Expect: ${canary('expect')}`),
  request('/', `Upgrade: ${canary('upgrade')}`),
  `GET / ${canary('version')}\r\n${fields.join('\r\n')}\r\n\r\n`,
  `${canary('method')} / HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n`,
  `POST / HTTP/1.1\r\n${fields.join('\r\n')}\r\nContent-Length: 5\r\n\r\n${canary('posted')}`,
  `POST / HTTP/1.1\r\n${fields.join('\r\n')}\r\n${chunked}\r\n\r\n${canary('chunk')}`,
]

const lines = () =>
  gateway
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{'))

describe('the log of the real process at its most talkative', () => {
  test('has a line for each event, and no secret in any', async () => {
    for (const bytes of requests) await sendRaw(gateway.port, bytes)
    const gone = openRaw(gateway.port)
    gone.socket.write(request(`/?x=${canary('query')}`, known).slice(0, -2))
    gone.socket.destroy()
    await until('it is logged', () => lines().length >= 12)
    expect(gateway.output()).not.toMatch(/canary|5ecre7/i)
    expect(gateway.output()).toContain('"event":"ratelimit.decision"')
    expect(gateway.output()).toContain('"event":"gateway.refused"')
  })

  test('has no secret of a policy that was refused', async () => {
    const wrong = [
      { ...gateway.policy, store: { mode: 'standalone', password: canary('password') } },
      { ...gateway.policy, decisionApi: { listen: { port: 1 }, token: canary('api-token') } },
      { ...gateway.policy, auth: { apiKeys: { secret: canary('hmac'), file: 'x' } } },
      { ...gateway.policy, auth: { apiKeys: { secret: { text: canary('hmac') }, file: 'x' } } },
    ]
    for (const [at, policy] of wrong.entries()) {
      gateway.write(JSON.stringify(policy))
      const count = () => lines().filter((line) => line.includes('policy.refused')).length
      await until('it is refused', () => count() === at + 1)
    }
    gateway.write(JSON.stringify(gateway.policy))
    expect(gateway.output()).not.toMatch(/canary|5ecre7/i)
  })

  test('has no secret of a store that refuses us', async () => {
    await redis.command('ACL', 'DELUSER', 'gateway')
    await sendRaw(gateway.port, request('/', known))
    await until('the store is heard', () => gateway.output().includes('"event":"store.'))
    expect(gateway.output()).not.toMatch(/canary|5ecre7/i)
  })

  test('is one JSON object per line, whatever clients write into their paths', async () => {
    const hostile = [
      ...['/%0a{"event":"forged"}', '/%0d%0a%7B%22event%22:%22forged%22%7D', '/%1b[31mred'],
      ...['/\x1b[2J', '/\u2028', '/"},{"event":"forged', '/\\n{"event":"forged"}', '/%E2%80%A8x'],
      ...['/%C2%9B31m', `/few/${'x'.repeat(8_000)}`, '/{"event":"forged"}', "/'%22%3E"],
    ]
    for (const target of hostile) {
      await sendRaw(gateway.port, request(target, 'X-Api-Key: unknown'))
    }
    await sendRaw(gateway.port, request('/the-last-one', 'X-Api-Key: unknown'))
    await until('all are logged', () => gateway.output().includes('GET /the-last-one'))
    const all = gateway
      .output()
      .split('\n')
      .filter((line) => line !== '')
    const parsed = all
      .filter((line) => !line.startsWith('tidegate: '))
      .map((line) => JSON.parse(line))
    expect(parsed.filter(({ event }) => event === 'forged')).toEqual([])
    expect(parsed.every(({ ts, level }) => typeof ts === 'string' && level !== undefined)).toBe(
      true,
    )
    // No escape sequence reaches a terminal.
    const controls = Array.from(gateway.output()).filter((character) =>
      /\p{Cc}|\p{Zl}/u.test(character),
    )
    expect(new Set(controls)).toEqual(new Set(['\n']))
    expect(Math.max(...lines().map((line) => line.length))).toBeLessThan(2_000)
  })
})
