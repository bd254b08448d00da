/** Requests to an upstream, with and without bodies, and its timeouts. */

import type { Socket } from 'node:net'
import { type Duplex, PassThrough, Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import type { UpstreamCall } from '../../../packages/server/src/gateway/upstreams/upstream-client.ts'
import { until } from '../../support/servers/until.ts'
import { ask, makePool, type PoolRequest } from './pool-client.ts'
import { startRawUpstream } from './test-upstream.ts'
import { differs } from './transport-differences.ts'

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** Answers after that many bytes of the body. */
async function startTaking(bytes: number) {
  let text = ''
  return startRawUpstream((socket, piece) => {
    text += piece
    const headEnd = text.indexOf('\r\n\r\n')
    if (headEnd !== -1 && text.length - headEnd - 4 >= bytes) socket.write(ok)
  })
}

async function sent(request: Partial<PoolRequest>, wireBytes: number): Promise<string> {
  const upstream = await startTaking(wireBytes)
  const answer = await ask(makePool(upstream.url), { request: { method: 'POST', ...request } })
  expect(answer).toMatchObject({ body: 'ok', code: undefined })
  return upstream.received()
}

describe('a request is written', () => {
  const start = 'POST / HTTP/1.1\r\nhost: a.example\r\nconnection: keep-alive\r\n'

  test('without a body', async () => {
    expect(await sent({}, 0)).toBe(`${start}content-length: 0\r\n\r\n`)
    expect(await sent({ method: 'GET' }, 0)).not.toContain('content-length')
  })

  test.each([1, 8_192, 8_193, 65_536])('with a whole body of %i bytes', async (bytes) => {
    const body = Buffer.from(Array.from({ length: bytes }, (_, at) => at % 256))
    const text = body.toString('latin1')
    expect(await sent({ body }, bytes)).toBe(`${start}content-length: ${bytes}\r\n\r\n${text}`)
  })

  test('with a body that is arriving, of declared length', async () => {
    const body = Readable.from([Buffer.from('ab'), Buffer.from('c')])
    const text = await sent({ body, bodyBytes: 3 }, 3)
    expect(text).toBe(`${start}content-length: 3\r\n\r\nabc`)
  })

  test('with a body that is arriving in chunks, none of which is empty', async () => {
    const pieces = ['ab', '', 'c'.repeat(17)].map((piece) => Buffer.from(piece))
    const text = await sent({ body: Readable.from(pieces) }, 35)
    const chunks = `2\r\nab\r\n11\r\n${'c'.repeat(17)}\r\n0\r\n\r\n`
    expect(text).toBe(`${start}transfer-encoding: chunked\r\n\r\n${chunks}`)
  })

  test('with values as long as they may be', async () => {
    const value = '\xe9'.repeat(60_000)
    const headers = Array.from({ length: 20 }, (_, at) => [`x-${at}`, value]).flat()
    expect(await sent({ headers }, 0)).toContain(`x-19: ${value}\r\n`)
  })
})

describe('a request is not written', () => {
  test.each<[string, Partial<PoolRequest>]>([
    ['with CR and LF in a value', { headers: ['x', 'a\r\ny: b'] }],
    ['with LF in a value', { headers: ['x', 'a\nb'] }],
    ['with CR in a value', { headers: ['x', 'a\r'] }],
    ['with NUL in a value', { headers: ['x', 'a\0'] }],
    ['with a letter that becomes LF as a byte', { headers: ['x', 'a\u010ab'] }],
    ['with an emoji in a value', { headers: ['x', '🙂'] }],
    ['with a colon in a name', { headers: ['x: y', 'a'] }],
    ['with a line end in a name', { headers: ['x: y\r\nz', 'a'] }],
    ['with a space behind a name', { headers: ['x ', 'a'] }],
    ['with an empty name', { headers: ['', 'a'] }],
    ['with a space in the target', { target: '/ HTTP/1.1' }],
    ['with a line end in the target', { target: '/ HTTP/1.1\r\nx: y' }],
    ['with a letter beyond ASCII in the target', { target: '/\xe9' }],
    ['without a target', { target: '' }],
    ['with a space in the method', { method: 'GET /a' }],
    ['with a line end in the method', { method: 'GET\r\n' }],
    ['with a line end in the protocol to switch to', { upgrade: 'a\r\nb: c' }],
  ])('%s', async (_name, request) => {
    const upstream = await startTaking(0)
    const pool = makePool(upstream.url)
    expect(await ask(pool)).toMatchObject({ body: 'ok' })
    const before = upstream.received()
    expect(await ask(pool, { request })).toMatchObject({ code: 'UPSTREAM_UNWRITABLE', status: 0 })
    expect(await ask(pool)).toMatchObject({ body: 'ok' })
    expect(upstream.received()).toBe(before + before)
  })

  test('if its body was aborted before', async () => {
    const upstream = await startTaking(0)
    const body = new PassThrough()
    body.on('error', () => undefined)
    body.destroy(new Error('gone'))
    await until('it has broken off', () => body.closed)
    const answer = await ask(makePool(upstream.url), { request: { method: 'POST', body } })
    expect(answer).toMatchObject({ code: 'gone' })
    expect(upstream.received()).toBe('')
  })
})

describe('a body that differs from its declared length', () => {
  test.each<[string, number | undefined, (body: PassThrough) => void, RegExp]>([
    ['is longer', 4, (body) => body.end('too long'), /TIDEGATE_BODY_INVALID/],
    ['is shorter', 40, (body) => body.end('too short'), /TIDEGATE_BODY_ABORTED/],
    ['breaks off', 40, (body) => body.destroy(new Error('gone')), /gone/],
    ['breaks off in chunks', undefined, (body) => body.destroy(new Error('gone')), /gone/],
    ['breaks off without a word', undefined, (body) => body.destroy(), /TIDEGATE_BODY_ABORTED/],
  ])('%s: the upstream gets no whole request', async (_name, bodyBytes, end, message) => {
    const closed = new Set<Socket>()
    const upstream = await startRawUpstream((socket) => {
      socket.once('close', () => closed.add(socket))
    })
    const body = new PassThrough()
    // undici sends the head of a request with the first bytes of its body.
    body.write('.')
    const asked = ask(makePool(upstream.url), { request: { method: 'POST', body, bodyBytes } })
    await until('the head is there', () => upstream.received().includes('\r\n\r\n'))
    end(body)
    expect((await asked).code).toMatch(message)
    await until('it is closed', () => closed.size === 1)
    expect(upstream.received()).not.toContain('too long')
    expect(upstream.received()).not.toContain('\n0\r\n\r\n')
  })
})

describe('an upstream that takes too long', () => {
  test('to answer', async () => {
    const upstream = await startRawUpstream(() => undefined)
    const { code, progress } = await ask(makePool(upstream.url, { response: 50 }))
    expect(code).toBe('UPSTREAM_RESPONSE_TIMEOUT')
    expect(progress).toEqual({ isSent: true, isAnswered: false })
  })

  test('with the head, byte by byte', async () => {
    const timers: NodeJS.Timeout[] = []
    const upstream = await startRawUpstream((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nX: ')
      timers.push(setInterval(() => socket.write('x'), 20))
    })
    const { code } = await ask(makePool(upstream.url, { response: 200 }))
    for (const timer of timers) clearInterval(timer)
    expect(code).toBe('UPSTREAM_RESPONSE_TIMEOUT')
  })

  test('between two chunks of the body', async () => {
    const upstream = await startRawUpstream((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegun')
    })
    const answer = await ask(makePool(upstream.url, { idle: 50 }))
    expect(answer).toMatchObject({ code: 'UPSTREAM_IDLE_TIMEOUT', body: 'begun' })
  })

  test('to take the body of the request', async () => {
    const upstream = await startRawUpstream((socket) => socket.pause())
    const body = endless()
    const isOther = differs('blockedUpload')
    const timeouts = isOther ? { response: 100 } : { idle: 100 }
    const answer = await ask(makePool(upstream.url, timeouts), {
      request: { method: 'POST', body },
    })
    const code = isOther ? 'UPSTREAM_RESPONSE_TIMEOUT' : 'UPSTREAM_IDLE_TIMEOUT'
    expect(answer).toMatchObject({ code, status: 0 })
    body.destroy()
  })

  test('to speak of TLS', async () => {
    const upstream = await startRawUpstream(() => undefined)
    const tls = { ca: undefined, cert: undefined, key: undefined, serverName: 'a.example' }
    const pool = makePool(upstream.url.replace('http:', 'https:'), { connect: 50 }, tls)
    const { code, progress } = await ask(pool)
    expect(code).toBe('UPSTREAM_CONNECT_TIMEOUT')
    expect(progress).toEqual({ isSent: false, isAnswered: false })
  })

  test('is not one whose client takes long', async () => {
    const upstream = await startRawUpstream((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegun')
    })
    const pool = makePool(upstream.url, { idle: 50 })
    let connection: UpstreamCall | undefined
    const asked = ask(pool, {
      handler: { onData: () => false },
      onConnection(one) {
        connection = one
      },
    })
    const other = await ask(makePool(upstream.url, { idle: 400 }))
    expect(other.code).toBe('UPSTREAM_IDLE_TIMEOUT')
    expect(connection?.isClosed).toBe(false)
    connection?.resume()
    expect(await asked).toMatchObject({ code: 'UPSTREAM_IDLE_TIMEOUT', body: 'begun' })
  })

  test('does not include one that keeps sending', async () => {
    const timers: NodeJS.Timeout[] = []
    const upstream = await startRawUpstream((socket, text) => {
      if (!text.startsWith('POST')) return
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      timers.push(setInterval(() => socket.write('x'), 50))
    })
    const body = new PassThrough()
    body.write('.')
    let connection: UpstreamCall | undefined
    let count = 0
    // Long, because a machine may stop this process for a moment. All pieces take longer.
    const asked = ask(makePool(upstream.url, { idle: 3_000 }), {
      request: { method: 'POST', body },
      onConnection(one) {
        connection = one
      },
      handler: {
        onData() {
          count += 1
          if (count === 75) connection?.abort(new Error('enough'))
          if (count === 1) setImmediate(() => connection?.resume())
          return count > 1
        },
      },
    })
    expect((await asked).code).toBe('enough')
    for (const timer of timers) clearInterval(timer)
    body.destroy()
  })
})

describe('bytes that the other side does not take are not buffered', () => {
  const MEGABYTE = 1_024 ** 2
  /** More than the kernel buffers for both directions of a connection. */
  const SYSTEM_BYTES_MAX = 24 * MEGABYTE
  const TOTAL_BYTES = 64 * MEGABYTE

  test('of an answer', async () => {
    let server: Socket | undefined
    const upstream = await startRawUpstream((socket) => {
      server = socket
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${TOTAL_BYTES}\r\n\r\n`)
      socket.write(Buffer.alloc(TOTAL_BYTES))
    })
    let connection: UpstreamCall | undefined
    let taken = 0
    let isEager = false
    const asked = ask(makePool(upstream.url), {
      handler: {
        onData(chunk) {
          taken += chunk.length
          return isEager
        },
      },
      onConnection(one) {
        connection = one
      },
    })
    await until(
      'it is stuck',
      isSteady(() => `${taken} ${server?.writableLength}`),
    )
    expect(taken).toBeLessThanOrEqual(64 * 1_024)
    expect(TOTAL_BYTES - (server?.writableLength ?? 0)).toBeLessThan(SYSTEM_BYTES_MAX + MEGABYTE)
    isEager = true
    connection?.resume()
    expect((await asked).code).toBeUndefined()
    expect(taken).toBe(TOTAL_BYTES)
  })

  test('of a request', async () => {
    let server: Socket | undefined
    let made = 0
    const upstream = await startRawUpstream((socket, text) => {
      if (server === undefined) socket.pause()
      server = socket
      if (text.endsWith('0\r\n\r\n')) socket.write(ok)
    })
    const body = endless((bytes) => {
      made += bytes
      return made < TOTAL_BYTES
    })
    const asked = ask(makePool(upstream.url), { request: { method: 'POST', body } })
    await until(
      'it is stuck',
      isSteady(() => String(made)),
    )
    expect(made).toBeGreaterThan(0)
    expect(made).toBeLessThan(SYSTEM_BYTES_MAX)
    server?.resume()
    expect(await asked).toMatchObject({ body: 'ok', code: undefined })
    expect(made).toBe(TOTAL_BYTES)
  })

  /** True if several checks in a row, with pauses, found the same value. */
  function isSteady(look: () => string): () => boolean {
    let before = ''
    let times = 0
    return () => {
      const now = look()
      times = now === before ? times + 1 : 0
      before = now
      return times >= 5
    }
  }
})

describe('a connection that switches protocols', () => {
  const go = 'HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n'

  test('is handed over with all that came behind the answer', async () => {
    const upstream = await startRawUpstream((socket, text) => {
      socket.write(text.startsWith('GET') ? `${go}early` : `<${text}>`)
    })
    const pool = makePool(upstream.url)
    let tunnel: Duplex | undefined
    const onSwitched = (_head: unknown, socket: Duplex) => {
      tunnel = socket
    }
    await ask(pool, { request: { upgrade: 'echo' }, handler: { onSwitched } })
    expect(upstream.received()).toContain('connection: upgrade\r\nupgrade: echo\r\n')
    let text = ''
    tunnel?.on('data', (chunk) => {
      text += String(chunk)
    })
    tunnel?.resume()
    await until('it is there', () => text === 'early')
    tunnel?.write('hi')
    await until('it is answered', () => text === 'early<hi>')
    pool.destroy()
    expect(tunnel?.destroyed).toBe(false)
    tunnel?.destroy()
  })

  test('serves others if the upstream does not switch', async () => {
    const upstream = await startTaking(0)
    const pool = makePool(upstream.url)
    expect(await ask(pool, { request: { upgrade: 'echo' } })).toMatchObject({ body: 'ok' })
    expect(await ask(pool)).toMatchObject({ body: 'ok' })
    expect(upstream.connections()).toBe(differs('connectionReuse') ? 2 : 1)
  })

  test('ends if another protocol is offered', async () => {
    const upstream = await startRawUpstream((socket) => socket.write(go.replace('echo', 'h2c')))
    const answer = await ask(makePool(upstream.url), { request: { upgrade: 'echo' } })
    expect(answer).toMatchObject({ code: 'UPSTREAM_INVALID', status: 0 })
  })
})

/** A body that is generated on demand while `goesOn` returns true. */
function endless(goesOn: (bytes: number) => boolean = () => true): Readable {
  const piece = Buffer.alloc(64 * 1_024)
  return new Readable({
    read() {
      const isLast = !goesOn(piece.length)
      this.push(piece)
      if (isLast) this.push(null)
    },
  })
}
