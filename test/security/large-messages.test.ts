/** Bodies and heads of any size: too large ones are refused early, and little is buffered. */

import { connect, createServer, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { askRaw, openRaw, parseResponse } from '../e2e/gateway/raw-client.ts'
import { listening } from '../e2e/gateway/test-upstream.ts'
import { LOOPBACK } from '../support/servers/ports.ts'
import { until } from '../support/servers/until.ts'
import { MB, type ProbedGateway, startProbedGateway } from './probed-gateway.ts'
import {
  echo,
  okWith,
  type RecordingUpstream,
  startRecordingUpstream,
} from './recording-upstream.ts'

const GB = 1_024 ** 3

const stops: (() => unknown)[] = []
let upstream: RecordingUpstream
let gateway: ProbedGateway
beforeAll(async () => {
  const atEnd = (stop: () => unknown) => void stops.push(stop)
  const large = Buffer.from(okWith('x'.repeat(16 * MB)))
  upstream = await startRecordingUpstream((request, socket) => {
    if (request.target !== '/large') return echo(request, socket)
    socket.write(large)
    return undefined
  }, atEnd)
  const policy = {
    gateway: { bodyBytesMax: '16mb' },
    upstreams: {
      api: { targets: [upstream.url] },
      deaf: { targets: [await startDeafUpstream(atEnd)] },
    },
    routes: [{ match: { path: '/deaf' }, upstream: 'deaf' }, { upstream: 'api' }],
  }
  gateway = await startProbedGateway(policy, { atEnd })
})

afterAll(async () => {
  for (const stop of stops.reverse()) await stop()
})

/** An upstream that accepts connections and reads nothing. */
async function startDeafUpstream(atEnd: (stop: () => void) => void): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    sockets.add(socket.on('error', () => undefined))
  })
  atEnd(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `http://${LOOPBACK}:${await listening(server)}`
}

const chunked = 'Transfer-Encoding: chunked'

const head = (line: string, ...fields: string[]) =>
  `${[line, 'Host: a.example', ...fields].join('\r\n')}\r\n\r\n`

/** Sends chunks as fast as they are accepted, until there is a response or all are sent. */
async function sendStream(start: string, piece: Buffer, bytesMax: number) {
  const { socket, received } = openRaw(gateway.port)
  socket.write(start)
  let sent = 0
  while (sent < bytesMax && !socket.closed && !received().includes('\r\n\r\n')) {
    if (socket.write(piece)) await new Promise((resolve) => setImmediate(resolve))
    else
      await until(
        'more is taken',
        () => !socket.writableNeedDrain || socket.closed || received() !== '',
      )
    sent += piece.length
  }
  await until('there is an answer', () => socket.closed || received().includes('\r\n\r\n'))
  socket.destroy()
  return { sent, status: received() === '' ? 0 : parseResponse(received()).status }
}

describe('a body of 1 GB', () => {
  const piece = Buffer.alloc(256 * 1_024, 'x')

  test('that says so is refused before it is sent', async () => {
    const fields = ['Content-Length: 1073741824', 'Expect: 100-continue']
    const { status, text } = await askRaw(gateway.port, head('POST /huge HTTP/1.1', ...fields))
    expect(status).toBe(413)
    expect(text).not.toContain('100 Continue')
  })

  test('that says so and is sent all the same is not read', async () => {
    const before = await gateway.probe()
    const start = head('POST /huge HTTP/1.1', `Content-Length: ${GB}`)
    const { sent, status } = await sendStream(start, piece, GB)
    expect([0, 413]).toContain(status)
    expect(sent).toBeLessThan(64 * MB)
    await until('its memory is free', async () => {
      return (await gateway.probe()).held - before.held < MB
    })
  })

  test('in chunks is cut off at the limit', async () => {
    const before = await gateway.probe()
    const chunk = Buffer.concat([Buffer.from('40000\r\n'), piece, Buffer.from('\r\n')])
    const start = head('POST /huge HTTP/1.1', chunked)
    const { sent, status } = await sendStream(start, chunk, GB)
    expect([0, 413]).toContain(status)
    expect(sent).toBeLessThan(64 * MB)
    await until('nothing of it is held', async () => {
      return (await gateway.probe()).held - before.held < 2 * MB
    })
  })

  test('in one chunk is cut off at the limit', async () => {
    const start = head('POST /huge HTTP/1.1', chunked)
    const { sent, status } = await sendStream(`${start}40000000\r\n`, piece, GB)
    expect([0, 413]).toContain(status)
    expect(sent).toBeLessThan(64 * MB)
  })

  test('never reaches the upstream as a request', () => {
    expect(upstream.requests.map(({ target }) => target)).not.toContain('/huge')
  })
})

describe('a head', () => {
  const many = (count: number) => Array.from({ length: count }, (_, at) => `x-${at}: 1`)
  test.each([
    ['with a field of 17 KB', head('GET /head HTTP/1.1', `X: ${'x'.repeat(17_000)}`)],
    ['with a name of 17 KB', head('GET /head HTTP/1.1', `${'x'.repeat(17_000)}: x`)],
    ['with a target of 17 KB', head(`GET /${'x'.repeat(17_000)} HTTP/1.1`)],
    ['with 130 fields', head('GET /head HTTP/1.1', 'Connection: close', ...many(130))],
    ['with 2,000 fields', head('GET /head HTTP/1.1', ...many(2_000))],
    [
      'with 17 KB of trailers',
      `${head('POST /head HTTP/1.1', chunked)}0\r\nx: ${'x'.repeat(17_000)}\r\n\r\n`,
    ],
  ])('%s is refused with 431', async (_name, bytes) => {
    expect((await askRaw(gateway.port, bytes)).status).toBe(431)
    expect(upstream.requests.map(({ target }) => target)).not.toContain('/head')
  })

  test('that is sent without end is cut off', async () => {
    const before = await gateway.probe()
    const { sent, status } = await sendStream('GET / HTTP/1.1\r\nX: ', Buffer.alloc(MB, 'x'), GB)
    expect([0, 431]).toContain(status)
    expect(sent).toBeLessThan(64 * MB)
    await until('its memory is free', async () => {
      return (await gateway.probe()).held - before.held < MB
    })
  })
})

describe('no more than 1 MB is held for each request', () => {
  const COUNT = 60

  const LOOKS = 10

  /** The growth of the process's memory, once it has accepted nothing for several checks. */
  async function heldBy(sockets: readonly Socket[], before: number): Promise<number> {
    let [last, looks] = [-1, 0]
    await until('nothing moves any more', () => {
      const taken = sockets.reduce((sum, { bytesWritten, writableLength, bytesRead }) => {
        return sum + bytesWritten - writableLength + bytesRead
      }, 0)
      looks = taken === last ? looks + 1 : 0
      last = taken
      return looks === LOOKS
    })
    // Sent bytes may still be unread.
    let held = Number.NaN
    await until('the memory is stable', async () => {
      const last = held
      held = (await gateway.probe()).held - before
      return Math.abs(held - last) < MB / 2
    })
    return held
  }

  test('while the clients do not read the responses', async () => {
    const before = (await gateway.probe()).held
    const sockets = Array.from({ length: COUNT }, () => {
      const socket = connect({ port: gateway.port, host: LOOPBACK })
      socket.on('error', () => undefined).pause()
      socket.write(head('GET /large HTTP/1.1'))
      return socket
    })
    await until('they are under way', () => {
      return upstream.requests.filter(({ target }) => target === '/large').length === COUNT
    })
    expect(await heldBy(sockets, before)).toBeLessThan(COUNT * MB)
    for (const socket of sockets) socket.destroy()
  })

  test.each([
    ['while bodies arrive in chunks of a byte', '/huge', 30_000],
    ['while the upstream takes no body in chunks of a byte', '/deaf', 90_000],
  ])('%s', async (_name, path, chunks) => {
    const FEWER = 5
    const before = (await gateway.probe()).held
    const bytes = `${head(`POST ${path} HTTP/1.1`, chunked)}${'1\r\nx\r\n'.repeat(chunks)}`
    const sockets = Array.from({ length: FEWER }, () => {
      const socket = connect({ port: gateway.port, host: LOOPBACK })
      socket.on('error', () => undefined)
      socket.write(bytes)
      return socket
    })
    expect(await heldBy(sockets, before)).toBeLessThan(FEWER * MB)
    for (const socket of sockets) socket.destroy()
  })

  test('while the upstream takes no body', async () => {
    const before = (await gateway.probe()).held
    const body = Buffer.alloc(8 * MB, 'x')
    const sockets = Array.from({ length: COUNT }, () => {
      const socket = connect({ port: gateway.port, host: LOOPBACK })
      socket.on('error', () => undefined)
      socket.write(head('POST /deaf HTTP/1.1', `Content-Length: ${body.length}`))
      socket.write(body)
      return socket
    })
    expect(await heldBy(sockets, before)).toBeLessThan(COUNT * MB)
    for (const socket of sockets) socket.destroy()
  })
})
