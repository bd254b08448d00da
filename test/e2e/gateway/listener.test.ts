/** Bounds of the listener: sizes, counts and times. */

import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { request } from 'undici'
import { describe, expect, test } from 'vitest'
import { until } from '../../support/servers/until.ts'
import { askRaw, openRaw, parseResponse, sendRaw } from './raw-client.ts'
import { startTestGateway } from './test-gateway.ts'
import { startUpstream } from './test-upstream.ts'

const head = (line: string, ...fields: string[]) =>
  `${[line, 'Host: a.example', ...fields].join('\r\n')}\r\n\r\n`

async function start(gateway: object = {}, others: object = {}) {
  const upstream = await startUpstream()
  const policy = { gateway, upstreams: { api: { targets: [upstream.url] } }, ...others }
  return { upstream, gateway: await startTestGateway(policy) }
}

describe('a body', () => {
  test('that is said to be too large is refused with 413 before it is read', async () => {
    const { upstream, gateway } = await start({ bodyBytesMax: '1kb' })
    const response = await askRaw(
      gateway.port,
      head('POST / HTTP/1.1', 'Content-Length: 1000000000'),
    )
    expect(response.status).toBe(413)
    expect(response.headers).toMatchObject({ connection: 'close' })
    expect(upstream.seen).toHaveLength(0)
  })

  test('that turns out too large is refused with 413 while it arrives', async () => {
    const { upstream, gateway } = await start({ bodyBytesMax: '100kb' })
    const { socket, received } = openRaw(gateway.port)
    socket.write(head('POST / HTTP/1.1', 'Transfer-Encoding: chunked'))
    const chunk = `2800\r\n${'x'.repeat(10_240)}\r\n`
    const timer = setInterval(() => socket.write(chunk), 5)
    await until('there is an answer', () => received().includes('\r\n\r\n'))
    clearInterval(timer)
    expect(parseResponse(received()).status).toBe(413)
    expect(upstream.seen).toHaveLength(0)
    socket.destroy()
  })

  test('of the largest size that is allowed passes, however it is cut', async () => {
    const { upstream, gateway } = await start({ bodyBytesMax: '1mb' })
    const bytes = Buffer.alloc(1_024 ** 2, 'abcdefgh')
    const pieces = () => Readable.from([bytes.subarray(0, 10), bytes.subarray(10)])
    for (const body of [bytes, pieces()]) {
      const response = await request(gateway.url, { method: 'POST', body })
      expect(response.statusCode).toBe(200)
      await response.body.dump()
    }
    expect(upstream.seen.map(({ body }) => body === bytes.toString())).toEqual([true, true])
  })

  test('is asked for only when the limit has said yes', async () => {
    const limits = [{ name: 'one', key: 'ip', limit: 1, per: '1h', algorithm: 'fixedWindow' }]
    const { upstream, gateway } = await start({}, { limits })
    const waiting = head('POST / HTTP/1.1', 'Content-Length: 5', 'Expect: 100-continue')
    const first = openRaw(gateway.port)
    first.socket.write(waiting)
    await until('it is asked for', () => first.received() === 'HTTP/1.1 100 Continue\r\n\r\n')
    first.socket.write('hello')
    await until('it is answered', () => first.received().includes('from the upstream'))
    const second = await askRaw(gateway.port, waiting)
    expect(second.status).toBe(429)
    expect(second.headers).toMatchObject({ connection: 'close' })
    expect(second.text).not.toContain('100 Continue')
    expect(upstream.seen).toMatchObject([{ body: 'hello' }])
    first.socket.destroy()
  })

  test('of a refused request is read and discarded, and the connection continues', async () => {
    const limits = [{ name: 'one', key: 'ip', limit: 1, per: '1h', algorithm: 'fixedWindow' }]
    const { gateway } = await start({}, { limits })
    const post = `${head('POST / HTTP/1.1', 'Content-Length: 5')}hello`
    const { socket, received } = openRaw(gateway.port)
    for (const [count, text] of [post, post, head('GET /health HTTP/1.1')].entries()) {
      socket.write(text)
      const answers = () => received().match(/HTTP\/1.1 /g)?.length === count + 1
      await until(`there is answer ${count}`, answers)
    }
    expect(received().match(/HTTP\/1.1 \d+/g)).toEqual([
      'HTTP/1.1 200',
      'HTTP/1.1 429',
      'HTTP/1.1 200',
    ])
    socket.destroy()
  })

  test('that arrives too slowly is refused with 408', async () => {
    const { gateway } = await start({ bodyRateMin: '1kb', timeouts: { request: '5s' } })
    const { socket, received } = openRaw(gateway.port)
    socket.write(head('POST / HTTP/1.1', 'Content-Length: 100000'))
    const timer = setInterval(() => socket.write('x'), 100)
    await until('there is an answer', () => received().includes('\r\n\r\n'))
    clearInterval(timer)
    expect(parseResponse(received()).status).toBe(408)
    socket.destroy()
  })
})

describe('a request head', () => {
  test('that is too large is refused with 431', async () => {
    const { gateway } = await start()
    const response = await askRaw(gateway.port, head('GET / HTTP/1.1', `X: ${'x'.repeat(17_000)}`))
    expect(response.status).toBe(431)
    expect(JSON.parse(response.body)).toMatchObject({ status: 431 })
  })

  test('with too many fields is refused with 431', async () => {
    const { gateway } = await start()
    const fields = Array.from({ length: 300 }, (_, at) => `x-${at}: 1`)
    const response = await askRaw(
      gateway.port,
      head('GET / HTTP/1.1', 'Connection: close', ...fields),
    )
    expect(response.status).toBe(431)
  })

  test('that does not end in time is answered with 408 and closed', async () => {
    // Longer than a machine stalls before the first byte is read.
    const { gateway } = await start({ timeouts: { headers: '3s' } })
    const text = await sendRaw(gateway.port, 'GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ')
    expect(parseResponse(text).status).toBe(408)
  })

  test('that never comes closes the connection', async () => {
    const { gateway } = await start({ timeouts: { headers: '500ms' } })
    const socket = connect({ port: gateway.port, host: '127.0.0.1' })
    await new Promise((resolve) => socket.on('close', resolve).resume())
  })

  test.each([
    ['no HTTP', 'hello\r\n\r\n'],
    ['no Host', 'GET / HTTP/1.1\r\nConnection: close\r\n\r\n'],
    ['two Hosts', head('GET / HTTP/1.1', 'Connection: close', 'Host: b.example')],
    ['two lengths', head('POST / HTTP/1.1', 'Content-Length: 1', 'Content-Length: 2')],
    [
      'a length and chunks',
      head('POST / HTTP/1.1', 'Content-Length: 1', 'Transfer-Encoding: chunked'),
    ],
    ['a folded field', head('GET / HTTP/1.1', 'X: a', ' b')],
    ['a space before the colon', head('GET / HTTP/1.1', 'X : a')],
    ['a bare line feed', 'GET / HTTP/1.1\nHost: a\n\n'],
    ['a forbidden nomination', head('GET / HTTP/1.1', 'Connection: close, X-Forwarded-For')],
    ['chunks in HTTP/1.0', head('POST / HTTP/1.0', 'Transfer-Encoding: chunked')],
  ])('with %s is refused with 400 as problem details', async (_name, bytes) => {
    const { upstream, gateway } = await start()
    const response = await askRaw(gateway.port, bytes)
    expect(response.status).toBe(400)
    expect(response.headers['content-type']).toBe('application/problem+json')
    expect(JSON.parse(response.body)).toMatchObject({ status: 400 })
    expect(upstream.seen).toHaveLength(0)
  })

  test.each(['TRACE', 'CONNECT'])('with the method %s is refused with 405', async (method) => {
    const { gateway } = await start()
    const target = method === 'CONNECT' ? 'a.example:80' : '/'
    const text = head(`${method} ${target} HTTP/1.1`, 'Connection: close')
    expect((await askRaw(gateway.port, text)).status).toBe(405)
  })
})

describe('connections', () => {
  test('from one address are bounded', async () => {
    const { gateway } = await start({ connectionsPerIpMax: 3 })
    const open = Array.from({ length: 5 }, () => openRaw(gateway.port))
    for (const { socket } of open) socket.write(head('GET / HTTP/1.1'))
    await until('the others are closed', () => {
      const closed = open.filter(({ socket }) => socket.destroyed || socket.closed)
      return closed.length === 2
    })
    const answered = () => open.filter(({ received }) => received().includes('200 OK'))
    await until('three are served', () => answered().length === 3)
    for (const { socket } of open) socket.destroy()
    await until('there is room again', async () => {
      const text = await sendRaw(gateway.port, head('GET / HTTP/1.1', 'Connection: close'))
      return text.includes('200 OK')
    })
  })

  test('on which nothing but empty lines follow a request are closed', async () => {
    const { gateway } = await start({ timeouts: { headers: '3s', keepAlive: '500ms' } })
    const { socket, received } = openRaw(gateway.port)
    socket.write(head('GET / HTTP/1.1'))
    await until('it is answered', () => received().includes('from the upstream'))
    const timer = setInterval(() => socket.write('\r\n'), 100)
    await until('it is closed', () => socket.closed)
    clearInterval(timer)
  })

  test('on which an answer takes long are not idle', async () => {
    const upstream = await startUpstream((_request, response) => {
      setTimeout(() => response.end('late'), 4_000)
    })
    const gateway = await startTestGateway({
      gateway: { timeouts: { headers: '2500ms', keepAlive: '500ms' } },
      upstreams: { api: { targets: [upstream.url] } },
    })
    expect((await request(gateway.url)).statusCode).toBe(200)
  })

  test('of HTTP/1.0 are served and closed', async () => {
    const { gateway } = await start()
    const response = await askRaw(gateway.port, 'GET / HTTP/1.0\r\n\r\n')
    expect(response).toMatchObject({ status: 200, body: 'from the upstream' })
  })

  test('may carry several requests at once, answered in order', async () => {
    const { upstream, gateway } = await start()
    const last = head('GET /c HTTP/1.1', 'Connection: close')
    const text = await sendRaw(
      gateway.port,
      head('GET /a HTTP/1.1') + head('GET /b HTTP/1.1') + last,
    )
    expect(text.match(/HTTP\/1.1 200/g)).toHaveLength(3)
    expect(upstream.seen.map(({ url }) => url).sort()).toEqual(['/a', '/b', '/c'])
  })
})

describe('a client that takes nothing', () => {
  test('of a large response is disconnected, and the upstream request is aborted', async () => {
    let isClosed = false
    const upstream = await startUpstream((_request, response) => {
      response.on('close', () => {
        isClosed = true
      })
      response.end(Buffer.alloc(64 * 1_024 ** 2))
    })
    const gateway = await startTestGateway({
      gateway: { timeouts: { send: '500ms' } },
      upstreams: { api: { targets: [upstream.url] } },
    })
    const socket = connect({ port: gateway.port, host: '127.0.0.1' })
    socket.on('error', () => undefined).pause()
    socket.write(head('GET / HTTP/1.1'))
    await until('the upstream request is closed', () => isClosed)
    socket.destroy()
  })
})
