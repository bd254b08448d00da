/** Load shedding by priority. The test sets the delay of the event loop. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { request } from 'undici'
import { describe, expect, onTestFinished, test } from 'vitest'
import { hmacOf } from '../../../packages/server/src/gateway/auth/api-keys.ts'
import { until } from '../../support/servers/until.ts'
import { askRaw, openRaw } from './raw-client.ts'
import { startTestGateway, type TestGateway } from './test-gateway.ts'
import { startUpstream } from './test-upstream.ts'

const routes = [
  { match: { path: '/pay/**' }, upstream: 'api', priority: 'critical' },
  { match: { path: '/batch/**' }, upstream: 'api', priority: 'sheddable' },
  { upstream: 'api' },
]

const limits = [
  { name: 'login', match: { path: '/**/login' }, key: 'ip', limit: 1_000, per: '1s' },
  { name: 'export', match: { headers: { 'x-export': '*' } }, key: 'ip', limit: 1_000, per: '1s' },
]

function withPriorities(byLimit: Readonly<Record<string, string>>): object[] {
  return limits.map((limit) => ({ ...limit, priority: byLimit[limit.name] }))
}

async function start(others: object = {}, options: object = {}) {
  const upstream = await startUpstream()
  const upstreams = { api: { targets: [upstream.url] } }
  const gateway = await startTestGateway({ upstreams, routes, ...others }, options)
  return { gateway, upstream }
}

/** Adds samples of an event loop that is ten times as late as allowed. */
function overload({ overload: controller }: TestGateway, samples: number): void {
  for (let at = 0; at < samples; at++) controller.observe(1_000, 500)
}

async function statusOf(url: string, headers: Record<string, string> = {}): Promise<number> {
  const response = await request(url, { headers })
  await response.body.dump()
  return response.statusCode
}

function statuses({ url }: TestGateway, paths: readonly string[], headers = {}) {
  return Promise.all(paths.map((path) => statusOf(`${url}${path}`, headers)))
}

/** The third late sample is the first that counts. 3 s of them are more than a burst. */
const OVERLOADING = 8

/** The last of so many samples, ten times too late, raises the level from 0 to 2. */
const ALL_BUT_CRITICAL = OVERLOADING

describe('in a burst', () => {
  test('requests of all priorities are served, however late', async () => {
    const { gateway } = await start()
    overload(gateway, OVERLOADING - 1)
    const paths = ['/pay/1', '/', '/batch/1']
    expect(await statuses(gateway, paths)).toEqual([200, 200, 200])
  })
})

describe('in an overload', () => {
  test('critical requests pass, others get 503 and a time to come back', async () => {
    const { gateway, upstream } = await start()
    overload(gateway, ALL_BUT_CRITICAL)
    const paths = ['/pay/1', '/', '/batch/1', '/health', '/ready']
    expect(await statuses(gateway, paths)).toEqual([200, 503, 503, 200, 200])
    expect(upstream.seen.map(({ url }) => url)).toEqual(['/pay/1'])
    const response = await request(`${gateway.url}/batch/2`)
    expect(response.headers).toMatchObject({ 'content-type': 'application/problem+json' })
    expect(Number(response.headers['retry-after'])).toBeOneOf([1, 2, 3, 4, 5])
    expect(await response.body.json()).toEqual({
      type: 'about:blank',
      title: 'Service Unavailable',
      status: 503,
      detail: 'The gateway is overloaded.',
      request_id: response.headers['x-request-id'],
    })
    expect(gateway.overload.status()).toMatchObject({
      requests: 0,
      shed: { critical: 0, normal: 1, sheddable: 2 },
    })
  })

  test('the times to come back differ', async () => {
    const { gateway } = await start()
    overload(gateway, ALL_BUT_CRITICAL)
    const asked = Array.from({ length: 100 }, () => request(gateway.url))
    const waits = await Promise.all(
      asked.map(async (response) => {
        const { headers, body } = await response
        await body.dump()
        return headers['retry-after']
      }),
    )
    expect(new Set(waits).size).toBeGreaterThan(2)
  })

  test('a refusal is logged with its priority, and no more often than others', async () => {
    const { gateway } = await start({ log: { linesPerSecondMax: 5 } })
    overload(gateway, ALL_BUT_CRITICAL)
    await statuses(gateway, Array(50).fill('/batch/1'))
    const lines = gateway.logged().filter(({ event }) => event === 'gateway.refused')
    expect(lines.length).toBeGreaterThanOrEqual(5)
    expect(lines.length).toBeLessThan(50)
    expect(lines[0]).toMatchObject({
      status: 503,
      reason: 'The gateway is overloaded.',
      priority: 'sheddable',
      endpoint: 'GET /batch/1',
    })
  })

  test('a body that is refused is not taken for the next request', async () => {
    const { gateway, upstream } = await start()
    overload(gateway, ALL_BUT_CRITICAL)
    const inner = 'GET /pay/inner HTTP/1.1\r\nhost: a\r\n\r\n'
    const answers = await askRaw(
      gateway.port,
      `POST / HTTP/1.1\r\nhost: a\r\ncontent-length: ${inner.length}\r\n\r\n${inner}` +
        'GET /pay/outer HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n',
    )
    expect(answers.text.match(/HTTP\/1\.1 \d{3}/g)).toEqual(['HTTP/1.1 503', 'HTTP/1.1 200'])
    expect(upstream.seen.map(({ url }) => url)).toEqual(['/pay/outer'])
  })

  test('a client that is refused and does not wait has to', async () => {
    const { gateway } = await start()
    overload(gateway, 20)
    const { socket, received } = openRaw(gateway.port)
    onTestFinished(() => void socket.destroy())
    const ask = (path: string) => `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`
    const count = () => received().split('HTTP/1.1 ').length - 1
    const waitedMs: number[] = []
    for (const answers of [7, 13]) {
      const first = answers === 7 ? `${ask('/batch/1')}${ask('/pay/1')}` : ''
      socket.write(`${first}${ask('/batch/1').repeat(5)}`)
      await until('all are answered', () => count() === answers)
      const startMs = performance.now()
      socket.write(ask('/pay/1'))
      // Others are served meanwhile.
      expect(await statuses(gateway, ['/pay/2', '/health'])).toEqual([200, 200])
      await until('the last is answered', () => count() === answers + 1)
      waitedMs.push(performance.now() - startMs)
    }
    // After the fifth refusal in a row, half a second to a second. The longer of two waits, because
    // a machine that stalls between a response and the next request leaves less of one.
    expect(Math.max(...waitedMs)).toBeGreaterThan(450)
    const five = Array(5).fill('503')
    expect(
      received()
        .match(/HTTP\/1\.1 \d+/g)
        ?.map((line) => line.slice(9)),
    ).toEqual(['503', '200', ...five, '200', ...five, '200'])
  })

  test('everything passes again when the loop is on time', async () => {
    const { gateway } = await start()
    overload(gateway, 20)
    expect(await statuses(gateway, ['/'])).toEqual([503])
    for (let at = 0; at < 20; at++) gateway.overload.observe(0, 500)
    expect(await statuses(gateway, ['/', '/batch/1'])).toEqual([200, 200])
  })
})

describe('the priority of a request', () => {
  test.for([
    { path: '/', headers: {}, status: 503 },
    { path: '/login', headers: {}, status: 200 },
    { path: '/batch/login', headers: {}, status: 200 },
    { path: '/batch/1', headers: { 'x-export': 'yes' }, status: 503 },
    { path: '/pay/1', headers: { 'x-export': 'yes' }, status: 200 },
  ])('of $path with $headers is the highest that applies', async ({ path, headers, status }) => {
    const priorities = withPriorities({ login: 'critical', export: 'sheddable' })
    const { gateway } = await start({ limits: priorities })
    overload(gateway, ALL_BUT_CRITICAL)
    expect(await statuses(gateway, [path], headers)).toEqual([status])
  })

  test('is that of the route that is taken, which is the first that matches', async () => {
    const { gateway } = await start({ routes: [{ upstream: 'api' }, ...routes] })
    overload(gateway, ALL_BUT_CRITICAL)
    expect(await statuses(gateway, ['/pay/1'])).toEqual([503])
  })

  test('makes sheddable requests the first to go', async () => {
    const { gateway } = await start()
    for (let at = 0; at < OVERLOADING; at++) gateway.overload.observe(110, 500)
    expect(gateway.overload.status().sheddingShare).toEqual({
      sheddable: 0.55,
      normal: 0,
      critical: 0,
    })
    expect(await statuses(gateway, Array(40).fill('/'))).toEqual(Array(40).fill(200))
    expect(await statuses(gateway, Array(40).fill('/batch/1'))).toContain(503)
  })

  test('changes with the policy', async () => {
    const { gateway, upstream } = await start()
    overload(gateway, ALL_BUT_CRITICAL)
    gateway.change({
      upstreams: { api: { targets: [upstream.url] } },
      routes: [{ upstream: 'api', priority: 'critical' }],
    })
    expect(await statuses(gateway, ['/batch/1'])).toEqual([200])
  })
})

describe('a tier', () => {
  const SECRET = 'a secret of the gateway'
  const tiers = ['gold', 'free'].map(
    (tier) => `- { hmac: ${hmacOf(tier, SECRET)}, id: ${tier}_1, tier: ${tier} }\n`,
  )

  async function startWithTiers(priorities: object) {
    const folder = mkdtempSync(join(tmpdir(), 'tidegate-shed-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    writeFileSync(join(folder, 'keys.yaml'), tiers.join(''))
    const auth = { apiKeys: { secret: { env: 'KEY_SECRET' }, file: 'keys.yaml' } }
    const names = ['free', 'gold']
    return start(
      { auth, tiers: { names, default: 'free', priorities } },
      { folder, environment: { KEY_SECRET: SECRET } },
    )
  }

  test('makes requests critical once it is known', async () => {
    const { gateway } = await startWithTiers({ gold: 'critical' })
    overload(gateway, ALL_BUT_CRITICAL)
    expect(await statuses(gateway, ['/', '/batch/1'], { 'x-api-key': 'gold' })).toEqual([200, 200])
    expect(await statuses(gateway, ['/', '/pay/1'], { 'x-api-key': 'free' })).toEqual([503, 200])
    expect(await statuses(gateway, ['/', '/pay/1'])).toEqual([503, 200])
    expect(gateway.overload.status().requests).toBe(0)
  })

  test('that is sheddable goes before those without a priority', async () => {
    const { gateway } = await startWithTiers({ free: 'sheddable' })
    for (let at = 0; at < OVERLOADING; at++) gateway.overload.observe(110, 500)
    expect(gateway.overload.status().sheddingShare.normal).toBe(0)
    const headers = { 'x-api-key': 'gold' }
    expect(await statuses(gateway, ['/', '/', '/'], headers)).toEqual([200, 200, 200])
    const free = await statuses(gateway, Array(40).fill('/'), { 'x-api-key': 'free' })
    expect(free).toContain(503)
  })
})

describe('requests in flight', () => {
  test('leave a share to critical ones, and end when they end', async () => {
    const held: (() => void)[] = []
    const upstream = await startUpstream((_request, response) => {
      held.push(() => response.end('late'))
    })
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url], clientShareMax: 1 } },
      routes,
      gateway: { overload: { requestsMax: 10, criticalShare: 0.2 } },
    })
    const asked: Promise<number>[] = []
    const ask = async (path: string, inFlight: number) => {
      asked.push(statusOf(`${gateway.url}${path}`))
      await until('it is in flight', () => gateway.overload.status().requests === inFlight)
    }
    for (let at = 1; at <= 7; at++) await ask('/batch/1', at)
    expect(await statuses(gateway, ['/batch/1'])).toEqual([503])
    await ask('/', 8)
    expect(await statuses(gateway, ['/', '/batch/1'])).toEqual([503, 503])
    await ask('/pay/1', 9)
    await ask('/pay/2', 10)
    expect(await statuses(gateway, ['/pay/3', '/health'])).toEqual([503, 200])
    await until('all have arrived', () => held.length === 10)
    for (const end of held) end()
    expect(await Promise.all(asked)).toEqual(Array(10).fill(200))
    await until('all have ended', () => gateway.overload.status().requests === 0)
    expect(gateway.overload.status().shed).toEqual({ critical: 1, normal: 1, sheddable: 2 })
  })

  test('whose clients go away end with them', async () => {
    const upstream = await startUpstream(() => undefined)
    const gateway = await startTestGateway({ upstreams: { api: { targets: [upstream.url] } } })
    const sockets = Array.from({ length: 20 }, () => openRaw(gateway.port).socket)
    for (const socket of sockets) socket.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n')
    await until('they are in flight', () => gateway.overload.status().requests === 20)
    for (const socket of sockets) socket.destroy()
    await until('none is', () => gateway.overload.status().requests === 0)
  })
})
