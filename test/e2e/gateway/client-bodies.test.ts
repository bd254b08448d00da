/** HTTP/1 messages besides heads: expectations, bodies, and their ends. */

import type { Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { until } from '../../support/servers/until.ts'
import { AnswerClient, head, oldHead } from './answer-client.ts'
import { startTestGateway } from './test-gateway.ts'
import { startRawUpstream, startUpstream, type TestUpstream } from './test-upstream.ts'
import { differs } from './transport-differences.ts'

/** An upstream for /open, and no route for other paths. */
async function start(gateway: object = {}) {
  const upstream = await startUpstream((request, response, body) => {
    response.end(`<${request.url} ${body}>`)
  })
  const policy = {
    gateway,
    upstreams: { api: { targets: [upstream.url] } },
    routes: [{ match: { path: '/open/**' }, upstream: 'api' }],
  }
  return { upstream, gateway: await startTestGateway(policy) }
}

/** An upstream that hands its socket to the test. */
async function startByHand() {
  const sockets: Socket[] = []
  const upstream = await startRawUpstream((socket, text) => {
    if (text.includes('\r\n\r\n')) sockets.push(socket)
  })
  const gateway = await startTestGateway({
    upstreams: { api: { targets: [upstream.url], retries: 0 } },
  })
  const asked = (at = 0) => until('the upstream is asked', () => sockets[at])
  return { upstream, gateway, asked }
}

const five = 'Content-Length: 5'
const coded = 'Transfer-Encoding: chunked'
const waiting = 'Expect: 100-continue'
const inChunks = (...parts: string[]) =>
  `${parts.map((part) => `${part.length.toString(16)}\r\n${part}\r\n`).join('')}0\r\n\r\n`

describe('an expectation', () => {
  test.each([
    ['with a length', five, 'hello'],
    ['in chunks', coded, inChunks('hel', 'lo')],
  ])('of 100-continue is met once, and its body taken %s', async (_name, framing, body) => {
    const { upstream, gateway } = await start()
    const client = new AnswerClient(gateway.port)
    const interim = await client.ask(head('POST /open', framing, waiting))
    expect(interim.status).toBe(100)
    expect(client.received).toBe('HTTP/1.1 100 Continue\r\n\r\n')
    expect(await client.ask(body)).toMatchObject({ status: 200, body: '</open hello>' })
    expect((await client.ask(head('GET /open/next'))).body).toBe('</open/next >')
    expect(client.statuses).toEqual([100, 200, 200])
    expect(upstream.seen[0]?.headers).not.toHaveProperty('expect')
  })

  test.each([
    ['has two Hosts', 400, head('POST /open', 'Host: b.example', five, waiting)],
    ['has two lengths', 400, head('POST /open', five, coded, waiting)],
    ['has a path that is none', 400, head('POST /open\\', five, waiting)],
    ['has no route', 404, head('POST /elsewhere', five, waiting)],
    ['has too large a body', 413, head('POST /open', 'Content-Length: 5000', waiting)],
  ])('of 100-continue is not met where the request %s', async (_name, status, request) => {
    const { upstream, gateway } = await start({ bodyBytesMax: '1kb' })
    const client = new AnswerClient(gateway.port)
    expect((await client.ask(request)).status).toBe(status)
    expect(client.statuses).toEqual([status])
    expect(upstream.seen).toEqual([])
  })

  test('of 100-continue need not be met if the body is there, and all continue', async () => {
    const { gateway } = await start()
    const client = new AnswerClient(gateway.port)
    client.send(`${head('POST /open/a', five, waiting)}hello`, head('GET /open/b'))
    const finals = await until('both are answered', () => {
      const answers = client.answers.filter(({ status }) => status >= 200)
      return answers.length === 2 && answers
    })
    expect(finals.map(({ body }) => body)).toEqual(['</open/a hello>', '</open/b >'])
  })

  test('of anything else is refused with 417, and the next request is served', async () => {
    const { upstream, gateway } = await start()
    const client = new AnswerClient(gateway.port)
    client.send(`${head('POST /open/a', five, 'Expect: 200-ok')}hello`, head('GET /open/b'))
    expect((await client.answer(0)).status).toBe(417)
    expect((await client.answer(1)).body).toBe('</open/b >')
    expect(upstream.seen.map(({ url }) => url)).toEqual(['/open/b'])
  })
})

describe('a body that arrives behind its answer', () => {
  test('is discarded if it is small, and the connection continues', async () => {
    const { gateway } = await start()
    const client = new AnswerClient(gateway.port)
    expect((await client.ask(head('POST /elsewhere', five))).status).toBe(404)
    client.send('he')
    client.send('llo', head('GET /open'))
    expect(await client.answer(1)).toMatchObject({ status: 200, body: '</open >' })
  })

  test.each([
    ['with a length', head('POST /elsewhere', 'Content-Length: 5000000')],
    ['in chunks', `${head('POST /elsewhere', coded)}4c4b40\r\n`],
  ])('%s ends the connection where it is large, and the answer is read', async (_name, begin) => {
    const { gateway } = await start()
    const client = new AnswerClient(gateway.port)
    client.send(begin)
    // Sent without reading, like clients that read the response only afterwards.
    for (let sent = 0; sent < 5_000_000; sent += 50_000) client.send('x'.repeat(50_000))
    client.send(head('GET /open'))
    const answer = await client.answer(0)
    expect(answer).toMatchObject({ status: 404, headers: { connection: 'close' } })
    await client.closed()
    expect(client.statuses).toEqual([404])
  })
})

describe('an upload in chunks', () => {
  const bodyAt = ({ seen }: TestUpstream, path: string) =>
    seen.find(({ url }) => url === path)?.body

  test('of single bytes arrives whole', async () => {
    const { upstream, gateway } = await start()
    const client = new AnswerClient(gateway.port)
    const text = Array.from({ length: 20_000 }, (_, at) => String(at % 10)).join('')
    client.send(head('POST /open', coded), inChunks(...text), head('GET /open/next'))
    expect((await client.answer(1)).body).toBe('</open/next >')
    expect(bodyAt(upstream, '/open') === text).toBe(true)
  })

  test('of one megabyte in one chunk arrives whole', async () => {
    const { upstream, gateway } = await start()
    const client = new AnswerClient(gateway.port)
    const text = 'abcdefgh'.repeat(131_072)
    client.send(head('POST /open', coded), inChunks(text), head('GET /open/next'))
    expect((await client.answer(1)).body).toBe('</open/next >')
    expect(bodyAt(upstream, '/open') === text).toBe(true)
  })

  test('of every byte that there is arrives as it was', async () => {
    const { upstream, gateway } = await start()
    const client = new AnswerClient(gateway.port)
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, at) => at)).toString('latin1')
    client.send(head('POST /open', coded), inChunks(bytes, '\r\n0\r\n\r\n', bytes))
    await client.answer(0)
    expect(bodyAt(upstream, '/open')).toBe(`${bytes}\r\n0\r\n\r\n${bytes}`)
  })
})

describe('what is too large', () => {
  const next = head('GET /open/next')

  test.each([
    ['with a length', `${head('POST /open', 'Content-Length: 11')}hello world`],
    ['in chunks', `${head('POST /open', coded)}${inChunks('hello ', 'world')}`],
    ['in a chunk', `${head('POST /open', coded)}${inChunks('hello world')}`],
  ])('as a body %s is refused with 413, no more is done than said', async (_name, request) => {
    const { upstream, gateway } = await start({ bodyBytesMax: '10b' })
    const client = new AnswerClient(gateway.port)
    client.send(request, next)
    const { status, headers } = await client.answer(0)
    expect(status).toBe(413)
    const isKept = headers.connection === 'keep-alive'
    if (isKept) expect((await client.answer(1)).body).toBe('</open/next >')
    else await client.closed()
    expect(client.statuses).toEqual(isKept ? [413, 200] : [413])
    // A request without a response was not sent upstream.
    expect(upstream.seen.map(({ url }) => url)).toEqual(isKept ? ['/open/next'] : [])
  })

  test.each([
    ['fields', head('GET /open', `X: ${'x'.repeat(5_000)}`)],
    ['a field without an end', `GET /open HTTP/1.1\r\nHost: a.example\r\nX: ${'x'.repeat(5_000)}`],
    ['a name without an end', `GET /open HTTP/1.1\r\nHost: a.example\r\n${'x'.repeat(5_000)}`],
    ['a target', head(`GET /open/${'x'.repeat(5_000)}`)],
    ['a target without an end', `GET /open/${'x'.repeat(5_000)}`],
  ])('as a head by %s is refused with 431 or 414', async (_name, request) => {
    const { upstream, gateway } = await start({ headerBytesMax: '4kb' })
    const client = new AnswerClient(gateway.port)
    client.send(request)
    const { status, headers } = await client.answer(0)
    expect([414, 431]).toContain(status)
    expect(headers).toMatchObject({ connection: 'close' })
    await client.closed()
    expect(upstream.seen).toEqual([])
  })

  test('as a head is not one that has nearly all that it may have', async () => {
    const { gateway } = await start({ headerBytesMax: '4kb' })
    const client = new AnswerClient(gateway.port)
    for (let count = 0; count < 3; count += 1) {
      const { status } = await client.ask(head('GET /open', `X: ${'x'.repeat(3_900)}`))
      expect(status).toBe(200)
    }
  })

  test('are extensions of chunks, beyond some that there may be', async () => {
    const { upstream, gateway } = await start()
    const client = new AnswerClient(gateway.port)
    const extended = (count: number) =>
      differs('chunkExtensions')
        ? `1;a=${'b'.repeat(900 * count)}\r\nx\r\n0\r\n\r\n`
        : `${`1;a=${'b'.repeat(900)}\r\nx\r\n`.repeat(count)}0\r\n\r\n`
    client.send(head('POST /open', coded), extended(10))
    expect((await client.answer(0)).body).toBe(
      `</open ${'x'.repeat(differs('chunkExtensions') ? 1 : 10)}>`,
    )
    client.send(head('POST /open', coded), extended(30))
    const { status, headers } = await client.answer(1)
    expect([status, headers.connection]).toEqual([400, 'close'])
    expect(upstream.seen).toHaveLength(1)
  })

  test('is a head of more than 128 fields', async () => {
    const { upstream, gateway } = await start()
    const client = new AnswerClient(gateway.port)
    const fields = (count: number) => Array.from({ length: count }, (_, at) => `x-${at}: 1`)
    expect((await client.ask(head('GET /open', ...fields(127)))).status).toBe(200)
    expect((await client.ask(head('GET /open', ...fields(128)))).status).toBe(431)
    expect(upstream.seen).toHaveLength(1)
  })
})

describe('an answer that is on its way', () => {
  test.each([
    ['in chunks', 'transfer-encoding: chunked', head('GET /')],
    ['with a length', 'content-length: 15', head('GET /')],
    ['until the end', 'x: y', head('GET /')],
    ['of HTTP/1.0', 'x: y', oldHead('GET /')],
  ])('%s passes piece by piece', async (_name, field, request) => {
    const { gateway, asked } = await startByHand()
    const client = new AnswerClient(gateway.port)
    client.send(request)
    const socket = await asked()
    socket.write(`HTTP/1.1 200 OK\r\n${field}\r\n\r\n`)
    await until('the head is there', () => client.received.includes('\r\n\r\n'))
    for (const piece of ['one..', 'two..', 'three']) {
      socket.write(field.endsWith('chunked') ? `5\r\n${piece}\r\n` : piece)
      await until(`there is ${piece}`, () => client.received.includes(piece))
    }
    if (field.endsWith('chunked')) socket.write('0\r\n\r\n')
    else socket.end()
    const { body, framing } = await client.answer(0)
    expect(body).toBe('one..two..three')
    const isOld = request.includes('HTTP/1.0')
    expect(framing).toBe(isOld ? 'close' : field.startsWith('content') ? 'length' : 'chunks')
    if (isOld) await client.closed()
  })

  test('has its trailers behind it, and the next answer behind those', async () => {
    const { gateway, asked } = await startByHand()
    const client = new AnswerClient(gateway.port)
    client.send(head('GET /a', 'TE: trailers'), head('GET /b', 'Connection: close'))
    const first = await asked()
    first.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n')
    await until('the head is there', () => client.received.includes('\r\n\r\n'))
    first.write('1\r\na\r\n0\r\nX-Sum: 42\r\n\r\n')
    const { body, trailers } = await client.answer(0)
    expect([body, trailers]).toEqual(['a', { 'x-sum': '42' }])
    const second = await asked(1)
    second.write('HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nb')
    expect((await client.answer(1)).body).toBe('b')
  })

  test('has its hints before it, and at once', async () => {
    const { gateway, asked } = await startByHand()
    const client = new AnswerClient(gateway.port)
    client.send(head('GET /a'))
    const socket = await asked()
    socket.write('HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n')
    const hint = await client.answer(0)
    expect(hint).toMatchObject({ status: 103, headers: { link: '</a.css>; rel=preload' } })
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
    expect(await client.answer(1)).toMatchObject({ status: 200, body: 'ok' })
    client.send(head('GET /b'))
    ;(await asked(1)).write('HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnext')
    expect((await client.answer(2)).body).toBe('next')
  })

  test.each([
    ['in chunks', 'transfer-encoding: chunked', '6\r\nbroken\r\n'],
    ['amid a chunk', 'transfer-encoding: chunked', '60\r\nbroken'],
    ['with a length', 'content-length: 100', 'broken'],
  ])('%s takes the connection with it where it breaks off', async (_name, field, part) => {
    const { upstream, gateway, asked } = await startByHand()
    const client = new AnswerClient(gateway.port)
    client.send(head('GET /a'), head('GET /health'))
    const socket = await asked()
    socket.write(`HTTP/1.1 200 OK\r\n${field}\r\n\r\n${part}`)
    await until('some of it is there', () => client.received.includes('broken'))
    socket.destroy()
    await client.closed()
    expect(client.answers).toEqual([])
    expect(client.rest).toMatch(/broken(\r\n)?$/)
    expect(upstream.connections()).toBe(1)
  })
})
