/** Reuse and end of connections to an upstream. */

import type { Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { describe, expect, test } from 'vitest'
import type { Body } from '../../../packages/server/src/gateway/body/body.ts'
import type { UpstreamCall } from '../../../packages/server/src/gateway/upstreams/upstream-client.ts'
import { until } from '../../support/servers/until.ts'
import { ask, makePool } from './pool-client.ts'
import { startRawUpstream } from './test-upstream.ts'
import { differs } from './transport-differences.ts'

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** Answers every request with the same bytes, and keeps its connections. */
async function startAnswering(answer: string, then: (socket: Socket) => void = () => undefined) {
  const sockets: Socket[] = []
  const upstream = await startRawUpstream((socket, text) => {
    if (!sockets.includes(socket)) sockets.push(socket)
    if (!/^[A-Z]+ .*\r\n\r\n/s.test(text)) return
    socket.write(answer, 'latin1')
    then(socket)
  })
  return { ...upstream, sockets }
}

describe('a connection is used again', () => {
  test.each([
    ['after an answer with a length', 'GET', ok],
    ['after 204', 'GET', 'HTTP/1.1 204 No Content\r\n\r\n'],
    ['after 304 with a length', 'GET', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n'],
    ['after HEAD', 'HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n'],
    [
      'after chunks and trailers',
      'GET',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n',
    ],
    [
      'where HTTP/1.0 asks for it',
      'GET',
      'HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\na',
    ],
    [
      'where it is kept for very long',
      'GET',
      'HTTP/1.1 200 OK\r\nKeep-Alive: timeout=999999999999\r\nContent-Length: 1\r\n\r\na',
    ],
  ])('%s', async (_name, method, answer) => {
    const upstream = await startAnswering(answer)
    const pool = makePool(upstream.url)
    for (let round = 0; round < 3; round += 1) {
      expect(await ask(pool, { request: { method } })).toMatchObject({ code: undefined })
    }
    const isClosed = differs('connectionReuse') && (method === 'HEAD' || answer.includes(' 304 '))
    expect(upstream.connections()).toBe(isClosed ? 3 : 1)
  })

  test('many times with bodies, and nothing is left on it', async () => {
    const warnings: Error[] = []
    const onWarning = (warning: Error) => void warnings.push(warning)
    process.on('warning', onWarning)
    const upstream = await startRawUpstream((socket, text) => {
      if (text.endsWith('0\r\n\r\n')) socket.write(ok)
    })
    const pool = makePool(upstream.url)
    for (let round = 0; round < 40; round += 1) {
      const body = new PassThrough()
      body.end('x'.repeat(100_000))
      expect(await ask(pool, { request: { method: 'POST', body } })).toMatchObject({ body: 'ok' })
    }
    process.off('warning', onWarning)
    expect(warnings).toEqual([])
    expect(upstream.connections()).toBe(1)
  })

  test('after a body whose last chunk has filled the socket', async () => {
    const BYTES = 1_024 ** 2
    // undici sends a body that is complete when it is read with its length.
    const isWhole = (text: string) =>
      text.includes(`content-length: ${BYTES}`)
        ? text.length === text.indexOf('\r\n\r\n') + 4 + BYTES
        : text.endsWith('0\r\n\r\n')
    const upstream = await startRawUpstream((socket, text) => {
      if (text.startsWith('GET') || isWhole(upstream.received())) socket.write(ok)
    })
    const pool = makePool(upstream.url)
    let takesMore = true
    const body: Body = {
      whole: () => undefined,
      pipe(sink) {
        takesMore = sink.write(Buffer.alloc(BYTES))
        sink.end(undefined, undefined)
      },
      resume: () => undefined,
      cancel: () => undefined,
    }
    expect(await ask(pool, { request: { method: 'POST', body } })).toMatchObject({ body: 'ok' })
    expect(takesMore).toBe(false)
    expect(await ask(pool)).toMatchObject({ body: 'ok' })
    expect(upstream.connections()).toBe(1)
  })
})

describe('a connection is not used again', () => {
  const length = 'Content-Length: 2\r\n'
  test.each([
    ['where the server closes it', `HTTP/1.1 200 OK\r\n${length}Connection: close\r\n\r\nok`],
    ['where close is one of several', `HTTP/1.1 200 OK\r\n${length}Connection: a, Close\r\n\r\nok`],
    ['after HTTP/1.0', `HTTP/1.0 200 OK\r\n${length}\r\nok`],
    [
      'where HTTP/1.0 says both',
      `HTTP/1.0 200 OK\r\n${length}Connection: keep-alive, close\r\n\r\nok`,
    ],
    ['where it is kept for no time', `HTTP/1.1 200 OK\r\n${length}Keep-Alive: timeout=0\r\n\r\nok`],
    [
      'where it is kept for a second',
      `HTTP/1.1 200 OK\r\n${length}Keep-Alive: timeout=1\r\n\r\nok`,
    ],
    ['where more comes than was told', `HTTP/1.1 200 OK\r\n${length}\r\nok!`],
    ['where 204 has a body', 'HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok'],
    ['where a second answer follows', ok + ok],
  ])('%s', async (_name, answer) => {
    const upstream = await startAnswering(answer)
    const pool = makePool(upstream.url)
    for (let round = 0; round < 3; round += 1) {
      expect(await ask(pool)).toMatchObject({ code: undefined })
    }
    expect(upstream.connections()).toBe(3)
    await until('all are closed', () => upstream.sockets.every(({ destroyed }) => destroyed))
  })

  test('if the response came before the request had ended', async () => {
    const upstream = await startAnswering(ok)
    const pool = makePool(upstream.url)
    const body = new PassThrough()
    body.write('a beginning')
    expect(await ask(pool, { request: { method: 'POST', body } })).toMatchObject({ body: 'ok' })
    expect(await ask(pool)).toMatchObject({ body: 'ok' })
    expect(upstream.connections()).toBe(2)
    body.destroy()
  })

  test('if the response came before the end of the request, whose rest is not read', async () => {
    const body = new PassThrough()
    body.write(Buffer.alloc(1_024 ** 2))
    const upstream = await startRawUpstream((socket) => {
      // Closing a connection with unread bytes resets it.
      socket.pause()
      socket.once('close', () => body.write('more'))
      socket.write('HTTP/1.1 413 Payload Too Large\r\nContent-Length: 3\r\n\r\nbig', () => {
        socket.destroy()
      })
    })
    const pool = makePool(upstream.url)
    const answer = await ask(pool, { request: { method: 'POST', body } })
    if (!differs('closedEarly') || answer.code === undefined) {
      expect(answer).toMatchObject({ status: 413, body: 'big', code: undefined })
    } else expect(['UPSTREAM_CLOSED', 'ECONNRESET', 'EPIPE']).toContain(answer.code)
    body.destroy()
  })

  test('if the response came before the request was read', async () => {
    const upstream = await startAnswering(ok, (socket) => socket.pause())
    const pool = makePool(upstream.url)
    const body = Buffer.alloc(32 * 1_024 ** 2)
    expect(await ask(pool, { request: { method: 'POST', body } })).toMatchObject({ body: 'ok' })
    expect(await ask(pool)).toMatchObject({ body: 'ok' })
    expect(upstream.connections()).toBe(2)
  })

  test('if the server has closed it while it was idle', async () => {
    const upstream = await startAnswering(ok)
    const pool = makePool(upstream.url)
    for (let round = 1; round < 4; round += 1) {
      expect(await ask(pool)).toMatchObject({ body: 'ok' })
      const socket = upstream.sockets.at(-1)
      socket?.end()
      await until('it is closed', () => socket?.destroyed)
      expect(upstream.connections()).toBe(round)
    }
  })

  test('if the server has sent bytes while it was idle', async () => {
    const upstream = await startAnswering(ok)
    const pool = makePool(upstream.url)
    for (let round = 1; round < 4; round += 1) {
      expect(await ask(pool)).toMatchObject({ body: 'ok' })
      const socket = upstream.sockets.at(-1)
      socket?.write('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison')
      await until('it is closed', () => socket?.destroyed)
      expect(upstream.connections()).toBe(round)
    }
  })

  test('once it was idle for nearly as long as the server keeps it', async () => {
    const answer = `HTTP/1.1 200 OK\r\n${length}Keep-Alive: timeout=2\r\n\r\nok`
    const upstream = await startAnswering(answer)
    const pool = makePool(upstream.url, { idle: 100 })
    expect(await ask(pool)).toMatchObject({ body: 'ok' })
    const startMs = performance.now()
    await until('it is closed', () => upstream.sockets[0]?.destroyed)
    expect(performance.now() - startMs).toBeGreaterThan(900)
  })

  test('after the pool was destroyed, and no request waits for ever', async () => {
    const upstream = await startAnswering('')
    const pool = makePool(upstream.url)
    const asked = [ask(pool), ask(pool)]
    await until('both are there', () => upstream.sockets.length === 2)
    pool.destroy()
    for (const answer of await Promise.all(asked)) expect(answer.code).toMatch(/not used any more/)
    await until('all are closed', () => upstream.sockets.every(({ destroyed }) => destroyed))
    const late = await startAnswering(ok)
    const latePool = makePool(late.url)
    latePool.destroy()
    expect(await ask(latePool)).toMatchObject({ body: 'ok' })
    await until('it is closed', () => late.sockets[0]?.destroyed)
  })
})

describe('who asks at the moment that another is answered', () => {
  /** The first response fills one read, so that the rest is read right after it. */
  const PIECE_BYTES = 64 * 1_024

  test('does not get bytes that the upstream sent before', async () => {
    const poison = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison'
    const head = `HTTP/1.1 200 OK\r\nContent-Length: ${PIECE_BYTES - 42}\r\n\r\n`
    const answer = head.padEnd(PIECE_BYTES, 'x')
    expect(head.length).toBe(42)
    const upstream = await startAnswering(answer + poison)
    const pool = makePool(upstream.url)
    for (let round = 0; round < 30; round += 1) {
      let next: ReturnType<typeof ask> | undefined
      const onEnd = () => {
        next = ask(pool)
      }
      await ask(pool, { handler: { onEnd } })
      expect((await next)?.body).not.toContain('poison')
    }
  })
})

describe('an upstream that ends the connection', () => {
  const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
  test.each([
    ['before it answers', '', false],
    ['in the status line', 'HTTP/1.1 2', true],
    ['in the head', 'HTTP/1.1 200 OK\r\nContent-', true],
    ['after an answer that is not final', 'HTTP/1.1 103 Early Hints\r\n\r\n', true],
    ['before the body', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n', true],
    ['in the body', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no', true],
    ['before the first chunk', chunked, true],
    ['in the size of a chunk', `${chunked}1`, true],
    ['in a chunk', `${chunked}2\r\no`, true],
    ['behind a chunk', `${chunked}2\r\nok\r\n`, true],
    ['before the trailers', `${chunked}2\r\nok\r\n0\r\n`, true],
    ['in the trailers', `${chunked}2\r\nok\r\n0\r\nx: y\r\n`, true],
  ])('%s has not answered', async (_name, answer, isAnswered) => {
    const upstream = await startRawUpstream((socket) => socket.end(answer))
    const { code, progress } = await ask(makePool(upstream.url))
    expect(code).toBe('UPSTREAM_CLOSED')
    expect(progress).toEqual({ isSent: true, isAnswered })
  })

  test('with its answer has answered, and the next one gets another connection', async () => {
    const upstream = await startRawUpstream((socket) => socket.end(ok))
    const pool = makePool(upstream.url)
    let connection: UpstreamCall | undefined
    const onConnection = (one: UpstreamCall) => {
      connection = one
    }
    for (let round = 0; round < 3; round += 1) {
      expect(await ask(pool, { onConnection })).toMatchObject({ body: 'ok', code: undefined })
      await until('the node has ended', () => connection?.isClosed)
    }
    expect(upstream.connections()).toBe(3)
  })

  test('at the end of an answer without a length has answered', async () => {
    const upstream = await startRawUpstream((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\nall'))
    expect(await ask(makePool(upstream.url))).toMatchObject({ body: 'all', code: undefined })
  })
})

describe('who aborts', () => {
  test.each([
    ['before there is a connection', '', 'at once'],
    ['before there is an answer', '', 'asked'],
    ['in the head', 'HTTP/1.1 200 OK\r\n', 'asked'],
  ] as const)('%s hears of it once, and the connection ends', async (_name, answer, when) => {
    const upstream = await startAnswering(answer)
    let connection: UpstreamCall | undefined
    const asked = ask(makePool(upstream.url), {
      onConnection(one) {
        connection = one
        if (when === 'at once') queueMicrotask(() => one.abort(new Error('enough')))
      },
    })
    if (when === 'asked') {
      await until('it is asked', () => upstream.sockets.length === 1)
      connection?.abort(new Error('enough'))
    }
    expect(await asked).toMatchObject({ code: 'enough', status: 0 })
    connection?.abort(new Error('again'))
    expect(connection?.isClosed).toBe(true)
    await until('it is closed', () => upstream.sockets.every(({ destroyed }) => destroyed))
  })

  test.each(['onHead', 'onData'] as const)('within %s hears nothing more', async (name) => {
    const upstream = await startAnswering(ok)
    let connection: UpstreamCall | undefined
    const abort = () => {
      connection?.abort(new Error('enough'))
      return true
    }
    const onConnection = (one: UpstreamCall) => {
      connection = one
    }
    const answer = await ask(makePool(upstream.url), { onConnection, handler: { [name]: abort } })
    expect(answer).toMatchObject({ code: 'enough', status: 200 })
    await until('it is closed', () => upstream.sockets[0]?.destroyed)
  })
})
