/** Requests of pages from other origins, over HTTP/1 and HTTP/2. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Agent, request } from 'undici'
import { describe, expect, onTestFinished, test } from 'vitest'
import { hmacOf } from '../../../packages/server/src/gateway/auth/api-keys.ts'
import { until } from '../../support/servers/until.ts'
import { makeAuthority } from './authority.ts'
import { openRaw, sendRaw } from './raw-client.ts'
import { startTestGateway } from './test-gateway.ts'
import { startRawUpstream, startUpstream } from './test-upstream.ts'

const ORIGIN = 'https://app.example.com'
const SECRET = 'a secret of the gateway'

const asking = (method: string, others: Record<string, string> = {}) => ({
  origin: ORIGIN,
  'access-control-request-method': method,
  ...others,
})

const oneAnHour = { name: 'hourly', key: 'everyone', limit: 1, per: '1h', algorithm: 'fixedWindow' }

type Answer = Parameters<typeof startUpstream>[0]

interface StartOptions {
  readonly answer?: Answer
  readonly hasHttp2?: boolean
}

/** A gateway that needs an API key, and a function that sends requests to it. */
async function start(policy: object, { answer, hasHttp2 = false }: StartOptions = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-cors-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'keys.yaml'), `- { hmac: ${hmacOf('good', SECRET)}, id: key_1 }\n`)
  const upstream = await startUpstream(answer)
  const secure = hasHttp2 ? makeSecure() : undefined
  const apiKeys = { secret: { env: 'KEY_SECRET' }, file: 'keys.yaml', required: true }
  const own: { gateway?: object } = policy
  const gateway = await startTestGateway(
    {
      auth: { apiKeys },
      upstreams: { api: { targets: [upstream.url] } },
      ...policy,
      gateway: { ...own.gateway, ...(secure && { tls: secure.tls }) },
    },
    { folder, environment: { KEY_SECRET: SECRET } },
  )
  const dispatcher = new Agent({ allowH2: hasHttp2, connect: { ...(secure && { ca: secure.ca }) } })
  onTestFinished(() => dispatcher.destroy())
  const ask = async (method: 'GET' | 'OPTIONS' | 'POST', headers = {}, path = '/', body = '') => {
    const options = { method, headers, dispatcher, ...(body !== '' && { body }) }
    const response = await request(`${gateway.url}${path}`, options)
    return {
      status: response.statusCode,
      headers: response.headers,
      text: await response.body.text(),
    }
  }
  return { upstream, gateway, ask, key: { 'x-api-key': 'good' } }
}

function makeSecure() {
  const authority = makeAuthority()
  const { certFile, keyFile } = authority.issue('localhost', 'DNS:localhost,IP:127.0.0.1')
  return { tls: { cert: certFile, key: keyFile }, ca: readFileSync(authority.caFile) }
}

describe('without a section cors, a pre-flight', () => {
  test('passes authentication, costs nothing, and goes to the upstream', async () => {
    const { upstream, ask, key } = await start(
      { limits: [oneAnHour] },
      {
        answer: (incoming, response) => {
          if (incoming.method === 'OPTIONS') {
            response.writeHead(204, { 'access-control-allow-origin': '*' })
          }
          response.end()
        },
      },
    )
    for (let count = 0; count < 3; count += 1) {
      const { status, headers } = await ask('OPTIONS', asking('PUT'))
      expect([status, headers['access-control-allow-origin']]).toEqual([204, '*'])
      expect(headers).not.toHaveProperty('ratelimit')
    }
    expect((await ask('GET', key)).status).toBe(200)
    expect((await ask('GET', key)).status).toBe(429)
    expect(upstream.seen.map(({ method }) => method)).toEqual([
      ...['OPTIONS', 'OPTIONS', 'OPTIONS', 'GET'],
    ])
  })

  test.each([
    ['has a body', asking('PUT'), 'x'],
    ['has no Origin', { 'access-control-request-method': 'PUT' }, ''],
    ['asks for no method', { origin: ORIGIN }, ''],
    ['has a cookie', asking('PUT', { cookie: 'a=1' }), ''],
    ['has a token', asking('PUT', { authorization: 'Bearer x' }), ''],
    ['has a wrong API key', asking('PUT', { 'x-api-key': 'bad' }), ''],
  ])('is a request like all others if it %s', async (_name, headers, body) => {
    const { upstream, ask } = await start({})
    expect((await ask('OPTIONS', headers, '/', body)).status).toBe(401)
    expect(upstream.seen).toHaveLength(0)
  })

  test('with a right API key is charged', async () => {
    const { ask, key } = await start({ limits: [oneAnHour] })
    expect((await ask('OPTIONS', asking('PUT', key))).status).toBe(200)
    expect((await ask('OPTIONS', asking('PUT', key))).status).toBe(429)
  })

  test('is refused beyond the limit of one client', async () => {
    const { upstream, ask } = await start({ gateway: { preflightsPerSecondMax: 1 } })
    const statuses: number[] = []
    for (let count = 0; count < 20; count += 1) {
      statuses.push((await ask('OPTIONS', asking('PUT'))).status)
    }
    expect(statuses.slice(0, 10)).toEqual(Array(10).fill(200))
    expect(statuses).toContain(429)
    expect(upstream.seen.length).toBe(statuses.filter((status) => status === 200).length)
  })

  test('is refused for an address on the deny list', async () => {
    const { upstream, ask } = await start({ ipLists: { deny: ['127.0.0.1'] } })
    expect((await ask('OPTIONS', asking('PUT'))).status).toBe(403)
    expect(upstream.seen).toHaveLength(0)
  })

  test('goes to the route of the request that it announces', async () => {
    const named = (name: string) => startUpstream((_request, response) => void response.end(name))
    const [reads, writes] = await Promise.all([named('reads'), named('writes')])
    const { ask } = await start({
      upstreams: { reads: { targets: [reads.url] }, writes: { targets: [writes.url] } },
      routes: [
        { match: { methods: ['GET'] }, upstream: 'reads' },
        { match: { methods: ['PUT'] }, upstream: 'writes' },
      ],
    })
    expect((await ask('OPTIONS', asking('GET'))).text).toBe('reads')
    expect((await ask('OPTIONS', asking('PUT'))).text).toBe('writes')
    expect((await ask('OPTIONS', asking('DELETE'))).status).toBe(404)
  })

  test('leads to refusals without CORS fields', async () => {
    const { ask } = await start({})
    const { status, headers } = await ask('GET', { origin: ORIGIN })
    expect(status).toBe(401)
    expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([])
    expect(headers).not.toHaveProperty('vary')
  })
})

const exposed = /^retry-after, ratelimit, ratelimit-policy, x-ratelimit-limit, .*x-mine$/

describe.each([
  ['HTTP/1', false],
  ['HTTP/2', true],
])('with a section cors, over %s', (_name, hasHttp2) => {
  const cors = {
    origins: [ORIGIN, 'https://*.example.org'],
    exposeHeaders: ['X-Mine'],
    credentials: true,
    maxAge: '1h',
  }

  test('a pre-flight is answered by the gateway', async () => {
    const { upstream, ask } = await start({ cors, limits: [oneAnHour] }, { hasHttp2 })
    const names = 'x-api-key, content-type'
    for (let count = 0; count < 3; count += 1) {
      const { status, headers, text } = await ask(
        'OPTIONS',
        asking('PUT', { 'access-control-request-headers': names }),
      )
      expect([status, text]).toEqual([204, ''])
      expect(headers).toMatchObject({
        vary: 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers',
        'access-control-allow-origin': ORIGIN,
        'access-control-allow-credentials': 'true',
        'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
        'access-control-allow-headers': names,
        'access-control-max-age': '3600',
      })
      expect(headers).not.toHaveProperty('content-length')
    }
    expect(upstream.seen).toHaveLength(0)
  })

  test('a pre-flight of another origin gets no permission', async () => {
    const { ask } = await start({ cors }, { hasHttp2 })
    const { status, headers } = await ask('OPTIONS', {
      ...asking('PUT'),
      origin: 'https://evil.example',
    })
    expect(status).toBe(204)
    expect(headers.vary).toMatch(/^Origin/)
    expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([])
  })

  test('responses of the upstream carry our fields instead of its own', async () => {
    const { ask, key } = await start(
      { cors },
      {
        hasHttp2,
        answer: (_incoming, response) => {
          response.writeHead(200, {
            'access-control-allow-origin': '*',
            'access-control-expose-headers': 'x-secret',
            'access-control-allow-methods': 'DELETE',
            vary: 'Accept-Encoding',
          })
          response.end('x')
        },
      },
    )
    const { headers } = await ask('GET', { origin: 'https://a.example.org', ...key })
    expect(headers).toMatchObject({
      'access-control-allow-origin': 'https://a.example.org',
      'access-control-allow-credentials': 'true',
      'access-control-expose-headers': expect.stringMatching(exposed),
      vary: 'Accept-Encoding, Origin',
    })
    expect(headers).not.toHaveProperty('access-control-allow-methods')
    const foreign = await ask('GET', { origin: 'https://evil.example', ...key })
    expect(foreign.headers).not.toHaveProperty('access-control-allow-origin')
    expect((await ask('GET', key)).headers.vary).toBe('Accept-Encoding, Origin')
  })

  test('refusals can be read by the page, each by its own', async () => {
    const { ask, key } = await start({ cors, limits: [oneAnHour] }, { hasHttp2 })
    const fields = (origin: string) => ({
      'access-control-allow-origin': origin,
      'access-control-expose-headers': expect.stringMatching(exposed),
      vary: 'Origin',
    })
    const refused = await ask('GET', { origin: ORIGIN })
    expect([refused.status, refused.headers]).toMatchObject([401, fields(ORIGIN)])
    expect((await ask('GET', { origin: ORIGIN, ...key })).status).toBe(200)
    const other = 'https://b.example.org'
    for (const origin of [ORIGIN, ORIGIN, other, ORIGIN, other]) {
      const { status, headers } = await ask('GET', { origin, ...key })
      expect([status, headers]).toMatchObject([429, fields(origin)])
      expect(headers['retry-after']).toMatch(/^\d+$/)
    }
    const { status, headers } = await ask('GET', key)
    expect([status, headers.vary]).toEqual([429, 'Origin'])
    expect(headers).not.toHaveProperty('access-control-allow-origin')
  })

  test('overload is readable, too', async () => {
    const { ask, gateway } = await start(
      { cors, gateway: { overload: { requestsMax: 1 } } },
      { hasHttp2 },
    )
    gateway.overload.enter()
    const { status, headers } = await ask('GET', { origin: ORIGIN })
    expect([status, headers['access-control-allow-origin']]).toEqual([503, ORIGIN])
    gateway.overload.leave()
  })
})

describe('a section cors', () => {
  test('for every origin answers the same to all', async () => {
    const { ask, key } = await start({ cors: { origins: ['*'], headers: ['X-Api-Key'] } })
    const preflight = await ask('OPTIONS', asking('PUT'))
    expect(preflight.headers).toMatchObject({
      'access-control-allow-origin': '*',
      'access-control-allow-headers': 'x-api-key',
    })
    for (const headers of [key, { origin: 'null', ...key }]) {
      const { headers: found } = await ask('GET', headers)
      expect(found['access-control-allow-origin']).toBe('*')
      expect(found).not.toHaveProperty('vary')
      expect(found).not.toHaveProperty('access-control-allow-credentials')
    }
  })

  test('of a route counts instead of that for all', async () => {
    const routes = [
      {
        match: { path: '/public/**', methods: ['GET'] },
        upstream: 'api',
        cors: { origins: ['*'] },
      },
      { match: { path: '/own/**' }, upstream: 'api', cors: false },
      { match: { path: '/v1/**' }, upstream: 'api' },
    ]
    const { ask, upstream } = await start({ cors: { origins: [ORIGIN] }, routes })
    const allowed = async (path: string, method: 'GET' | 'OPTIONS') => {
      const { status, headers } = await ask(method, asking('GET'), path)
      return [status, headers['access-control-allow-origin']]
    }
    expect(await allowed('/public/x', 'OPTIONS')).toEqual([204, '*'])
    expect(await allowed('/public/x', 'GET')).toEqual([401, '*'])
    expect(await allowed('/v1/x', 'OPTIONS')).toEqual([204, ORIGIN])
    expect(await allowed('/nowhere', 'GET')).toEqual([401, ORIGIN])
    expect(upstream.seen).toHaveLength(0)
    expect(await allowed('/own/x', 'OPTIONS')).toEqual([200, undefined])
    expect(await allowed('/own/x', 'GET')).toEqual([401, undefined])
    expect(upstream.seen).toHaveLength(1)
  })

  test('can come and go while the gateway runs', async () => {
    const { gateway, upstream } = await start({ auth: {} })
    const policy = { upstreams: { api: { targets: [upstream.url] } } }
    const allowed = async () => {
      const { headers, body } = await request(gateway.url, { headers: { origin: ORIGIN } })
      await body.dump()
      return headers['access-control-allow-origin']
    }
    expect(await allowed()).toBeUndefined()
    gateway.change({ ...policy, cors: { origins: [ORIGIN] } })
    expect(await allowed()).toBe(ORIGIN)
    gateway.change(policy)
    expect(await allowed()).toBeUndefined()
  })

  test('leaves the answer to a WebSocket as it is', async () => {
    const answer = 'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade'
    const upstream = await startRawUpstream((socket) => void socket.write(`${answer}\r\n\r\n`))
    const gateway = await startTestGateway({
      cors: { origins: [ORIGIN] },
      upstreams: { api: { targets: [upstream.url] } },
    })
    const { socket, received } = openRaw(gateway.port)
    onTestFinished(() => void socket.destroy())
    const fields = `Host: a\r\nOrigin: ${ORIGIN}\r\nConnection: upgrade\r\nUpgrade: websocket`
    socket.write(`GET / HTTP/1.1\r\n${fields}\r\n\r\n`)
    await until('it has switched', () => received().includes('\r\n\r\n'))
    expect(received()).toMatch(/^HTTP\/1.1 101 /)
    expect(received()).not.toMatch(/access-control|vary/i)
  })

  test('holds for bytes that are not a valid request', async () => {
    const gateway = await startTestGateway({ cors: { origins: ['*'] } })
    const wrong = 'GET /%2f HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
    expect(await sendRaw(gateway.port, wrong)).toMatch(
      / 400 [\s\S]*access-control-allow-origin: \*\r/,
    )
  })
})
