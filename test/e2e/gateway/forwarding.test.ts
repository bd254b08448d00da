/** Requests as the upstream gets them, and responses as the client gets them. */

import { once } from 'node:events'
import { request } from 'undici'
import { describe, expect, test } from 'vitest'
import { until } from '../../support/servers/until.ts'
import { askRaw, openRaw, sendRaw } from './raw-client.ts'
import { startTestGateway } from './test-gateway.ts'
import { startRawUpstream, startUpstream } from './test-upstream.ts'
import { differs } from './transport-differences.ts'

const to = (url: string, others: object = {}) => ({
  upstreams: { api: { targets: [url] } },
  ...others,
})

const get = (path: string, ...fields: string[]) =>
  [`GET ${path} HTTP/1.1`, 'Host: a.example', 'Connection: close', ...fields, '', ''].join('\r\n')

describe('the request that an upstream gets', () => {
  test('has the headers of the client and ours, and nothing of its connection', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway(to(upstream.url))
    const fields = ['X-Mine: 1', 'Connection: X-Gone', 'X-Gone: 1', 'Keep-Alive: timeout=1']
    await sendRaw(gateway.port, get('/', ...fields, 'X-Forwarded-For: 6.6.6.6', 'X_Real_IP: 6'))
    const { host, connection: _connection, ...headers } = upstream.seen[0]?.headers ?? {}
    expect(host).toBe('a.example')
    expect(headers).toEqual({
      'x-mine': '1',
      'x-request-id': expect.stringMatching(/^[0-9a-f-]{36}$/),
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-host': 'a.example',
      'x-forwarded-proto': 'http',
      'x-real-ip': '127.0.0.1',
      forwarded: 'for=127.0.0.1;host="a.example";proto=http',
      via: expect.stringMatching(/^1\.1 tidegate-/),
    })
  })

  test('has the value of a trusted proxy, with us appended', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway(
      to(upstream.url, { gateway: { trustProxy: ['127.0.0.0/8'] } }),
    )
    const fields = ['X-Forwarded-For: 6.6.6.6, 7.7.7.7', 'X-Forwarded-Proto: https']
    await sendRaw(gateway.port, get('/', ...fields, 'Forwarded: for=7.7.7.7'))
    expect(upstream.seen[0]?.headers).toMatchObject({
      'x-forwarded-for': '6.6.6.6, 7.7.7.7, 127.0.0.1',
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'a.example',
      'x-real-ip': '7.7.7.7',
      forwarded: 'for=7.7.7.7, for=127.0.0.1;host="a.example";proto=http',
    })
  })

  test('has the canonical path, which is also the one that was matched', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway(to(upstream.url))
    await sendRaw(gateway.port, get('//x/%2e%2e/%61dmin?a=//b'))
    expect(upstream.seen[0]?.url).toBe('/admin?a=//b')
    expect((await askRaw(gateway.port, get('/x/..;/admin'))).status).toBe(400)
    expect((await askRaw(gateway.port, get('http://evil.example/admin'))).status).toBe(400)
    expect(upstream.seen).toHaveLength(1)
  })

  test('is routed and rewritten by the first route that matches', async () => {
    const one = await startUpstream()
    const other = await startUpstream((_request, response) => {
      response.setHeader('server', 'secret')
      response.end('other')
    })
    const gateway = await startTestGateway({
      upstreams: { one: { targets: [one.url] }, other: { targets: [other.url] } },
      routes: [
        {
          match: { path: '/v1/**', methods: ['GET'], host: 'a.example' },
          upstream: 'other',
          rewrite: { stripPrefix: '/v1', addPrefix: '/api' },
          requestHeaders: { set: { 'x-a': 'b', host: 'other.example' }, remove: ['x-b'] },
          responseHeaders: { set: { 'x-c': 'd' }, remove: ['server'] },
        },
        { match: { path: '/open/*' }, upstream: 'one' },
      ],
    })
    const response = await askRaw(gateway.port, get('/v1/things?q', 'X-B: 1', 'X_A: forged'))
    expect(response.headers).toMatchObject({ 'x-c': 'd' })
    expect(response.headers).not.toHaveProperty('server')
    expect(other.seen[0]).toMatchObject({ url: '/api/things?q', headers: { 'x-a': 'b' } })
    expect(other.seen[0]?.headers).toMatchObject({ host: 'other.example' })
    expect(other.seen[0]?.headers).not.toHaveProperty('x-b')
    await sendRaw(gateway.port, get('/v1'))
    expect(other.seen[1]?.url).toBe('/api')
    await sendRaw(gateway.port, get('/v1;a=b/things;c'))
    expect(other.seen[2]?.url).toBe('/api/things;c')
    await sendRaw(gateway.port, get('/open/x'))
    expect(one.seen[0]?.url).toBe('/open/x')
    expect((await askRaw(gateway.port, get('/elsewhere'))).status).toBe(404)
  })

  test('is routed by the pattern of its host, in the order of the routes', async () => {
    const [one, below, rest] = [await startUpstream(), await startUpstream(), await startUpstream()]
    const gateway = await startTestGateway({
      upstreams: {
        one: { targets: [one.url] },
        below: { targets: [below.url] },
        rest: { targets: [rest.url] },
      },
      routes: [
        { match: { host: 'api.shop.example' }, upstream: 'one' },
        { match: { host: '*.shop.example' }, upstream: 'below' },
        { match: { host: 'late.shop.example' }, upstream: 'one' },
        { upstream: 'rest' },
      ],
    })
    const ask = (host: string) =>
      sendRaw(gateway.port, `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
    for (const host of ['API.shop.example.:80', 'api.shop.example']) await ask(host)
    for (const host of ['a.shop.example', 'A.B.SHOP.example:8443']) await ask(host)
    await ask('late.shop.example')
    for (const host of ['shop.example', 'a.shop.example.evil', 'notshop.example']) await ask(host)
    expect([one.seen.length, below.seen.length, rest.seen.length]).toEqual([2, 3, 3])
  })

  test('is one message, also for a GET with a body', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway(to(upstream.url))
    const smuggled = 'GET /admin HTTP/1.1\r\nHost: a.example\r\n\r\n'
    await sendRaw(gateway.port, get('/', `Content-Length: ${smuggled.length}`) + smuggled)
    expect(upstream.seen).toHaveLength(1)
    expect(upstream.seen[0]).toMatchObject({ url: '/', body: smuggled })
  })

  test('has a length if a small body came in chunks', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway(to(upstream.url))
    const head = get('/', 'Transfer-Encoding: chunked').replace('GET', 'POST')
    await sendRaw(gateway.port, `${head}3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nX-T: 1\r\n\r\n`)
    expect(upstream.seen[0]).toMatchObject({ body: 'abcdefg' })
    expect(upstream.seen[0]?.headers['content-length']).toBe('7')
    expect(upstream.seen[0]?.headers).not.toHaveProperty('transfer-encoding')
  })
})

describe('the response that a client gets', () => {
  test('is that of the upstream byte for byte, encoded or not', async () => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, at) => at))
    const upstream = await startUpstream((_request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip', etag: '"x"', connection: 'x-gone' })
      response.end(bytes)
    })
    const gateway = await startTestGateway(to(upstream.url))
    const { headers, body } = await request(gateway.url)
    expect(Buffer.from(await body.arrayBuffer())).toEqual(bytes)
    expect(headers).toMatchObject({ 'content-encoding': 'gzip', etag: '"x"' })
  })

  test.each([
    ['HEAD', 200, 'content-length: 5', 'content-length', '5'],
    ['GET', 204, 'x: 1', 'x', '1'],
    ['GET', 304, 'content-length: 5', 'content-length', '5'],
  ])('has no body to %s with %s', async (method, status, field, name, value) => {
    const upstream = await startRawUpstream((socket) => {
      socket.write(`HTTP/1.1 ${status} Some\r\n${field}\r\n\r\n`)
    })
    const gateway = await startTestGateway(to(upstream.url))
    const response = await askRaw(gateway.port, get('/').replace('GET', method))
    expect(response).toMatchObject({ status, body: '' })
    expect(response.headers[name]).toBe(value)
    expect(response.headers).not.toHaveProperty('transfer-encoding')
  })

  test('has the trailers of the upstream', async () => {
    const upstream = await startUpstream((_request, response) => {
      response.writeHead(200, { trailer: 'x-sum' })
      response.write('part')
      response.addTrailers({ 'x-sum': '42' })
      response.end()
    })
    const gateway = await startTestGateway(to(upstream.url))
    const { text } = await askRaw(gateway.port, get('/', 'TE: trailers'))
    expect(text).toMatch(/4\r\npart\r\n0\r\nx-sum: 42\r\n\r\n$/)
    expect(text).toMatch(/\r\ntrailer: x-sum\r\n/)
  })

  test('comes after an early hint', async () => {
    const upstream = await startRawUpstream((socket) => {
      socket.write('HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n')
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
    })
    const gateway = await startTestGateway(to(upstream.url))
    const text = await sendRaw(gateway.port, get('/'))
    expect(text).toMatch(/^HTTP\/1.1 103 Early Hints\r\nLink: <\/a.css>; rel=preload\r\n/i)
    expect(text).toMatch(/HTTP\/1.1 200 OK\r\n.*ok$/s)
  })

  test('is cut off where the upstream response was cut off', async () => {
    const upstream = await startRawUpstream((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this')
      socket.destroySoon()
    })
    const gateway = await startTestGateway(to(upstream.url))
    const asked = request(gateway.url).then(({ body }) => body.text())
    await expect(asked).rejects.toThrow()
  })

  test('keeps the stricter of two rate limits', async () => {
    const upstream = await startUpstream((_request, response) => {
      response.setHeader('X-RateLimit-Limit', '10')
      response.setHeader('X-RateLimit-Remaining', '1')
      response.setHeader('RateLimit-Policy', '"theirs";q=10;w=60')
      response.end()
    })
    const limits = [{ name: 'ours', key: 'ip', limit: 100, per: '1m', algorithm: 'fixedWindow' }]
    const gateway = await startTestGateway(to(upstream.url, { limits }))
    const { headers } = await askRaw(gateway.port, get('/'))
    expect(headers).toMatchObject({
      'x-ratelimit-limit': '10',
      'x-ratelimit-remaining': '1',
      'ratelimit-policy': '"theirs";q=10;w=60, "ours";q=100;w=60',
    })
  })
})

describe('an answer that the gateway cannot use', () => {
  test.each([
    ['is not HTTP', 'hello\r\n\r\n'],
    ['has two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab'],
    ['has a control character', 'HTTP/1.1 200 OK\r\nx: a\x01b\r\ncontent-length: 0\r\n\r\n'],
    ['switches protocols unasked', 'HTTP/1.1 101 S\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'],
  ])('becomes 502 when it %s', async (_name, bytes) => {
    const upstream = await startRawUpstream((socket) => void socket.end(bytes, 'latin1'))
    const gateway = await startTestGateway(to(upstream.url))
    const response = await askRaw(gateway.port, get('/'))
    expect(response.status).toBe(502)
    expect(response.headers['content-type']).toBe('application/problem+json')
    expect(JSON.parse(response.body)).toMatchObject({ status: 502, title: 'Bad Gateway' })
  })

  test('is not given to the next request when it comes unasked', async () => {
    let answered = 0
    const upstream = await startRawUpstream((socket) => {
      answered += 1
      const good = `HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood`
      socket.write(`${good}HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison`)
    })
    const gateway = await startTestGateway(to(upstream.url))
    const bodies = new Set<string>()
    for (let count = 0; count < 20; count += 1) {
      bodies.add((await askRaw(gateway.port, get('/'))).body)
    }
    expect(bodies).toEqual(new Set(['good']))
    expect(answered).toBe(20)
  })
})

describe('who goes away', () => {
  test('cancels the request at the upstream, if it is the client', async () => {
    let isClosed = false
    const upstream = await startUpstream((_request, response) => {
      response.on('close', () => {
        isClosed = true
      })
      response.write('begin')
    })
    const gateway = await startTestGateway(to(upstream.url))
    const { socket, received } = openRaw(gateway.port)
    socket.write(get('/'))
    await until('the body begins', () => received().includes('begin'))
    expect(isClosed).toBe(false)
    socket.destroy()
    await until('the upstream request is closed', () => isClosed)
  })

  test('frees the slot of a concurrency limit', async () => {
    const upstream = await startUpstream((_request, response) => void response.write('begin'))
    const limits = [{ name: 'slots', key: 'ip', limit: 1, algorithm: 'concurrency', ttl: '1m' }]
    const gateway = await startTestGateway(to(upstream.url, { limits }))
    const first = openRaw(gateway.port)
    first.socket.write(get('/'))
    await until('it is under way', () => first.received().includes('begin'))
    expect((await askRaw(gateway.port, get('/'))).status).toBe(429)
    first.socket.destroy()
    const second = openRaw(gateway.port)
    await once(second.socket, 'connect')
    await until('the slot is free', async () => {
      const next = openRaw(gateway.port)
      next.socket.write(get('/'))
      await until('it is answered', () => next.received().length > 0)
      return next.received().startsWith('HTTP/1.1 200')
    })
  })
})

describe('an answer that breaks before anything of it was sent', () => {
  test.each([
    ['its first chunk', 'zz\r\nhello'],
    ['a later chunk', '5\r\nhello\r\nzz\r\n'],
  ])('is 502 if %s is malformed', async (_name, chunks) => {
    const upstream = await startRawUpstream((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`)
    })
    const gateway = await startTestGateway({ upstreams: { api: { targets: [upstream.url] } } })
    const response = await askRaw(gateway.port, get('/'))
    if (differs('brokenResponse')) {
      expect(response.text).not.toContain('\r\n0\r\n')
      return
    }
    expect(response.status).toBe(502)
    expect(JSON.parse(response.body)).toMatchObject({ status: 502 })
    expect(gateway.logged()).toMatchObject([
      { event: 'upstream.failing', reason: 'UPSTREAM_INVALID' },
      { event: 'gateway.refused', status: 502 },
    ])
  })
})
