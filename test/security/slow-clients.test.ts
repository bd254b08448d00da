/**
 * Clients that send or read very slowly to hold resources. All are disconnected within the
 * configured timeouts, and other clients are served meanwhile.
 */

import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  errorCodes,
  flags,
  frame,
  frameTypes,
  uint32Frame,
} from '../../packages/server/src/rls/transport/http2/frames.ts'
import { sendRaw } from '../e2e/gateway/raw-client.ts'
import { startTestGateway } from '../e2e/gateway/test-gateway.ts'
import { LOOPBACK } from '../support/servers/ports.ts'
import { until } from '../support/servers/until.ts'
import { block, FrameClient, makeTls, requestFields } from './frame-client.ts'
import { MB, type ProbedGateway, startProbedGateway } from './probed-gateway.ts'
import {
  echo,
  okWith,
  type RecordingUpstream,
  startRecordingUpstream,
} from './recording-upstream.ts'

const BYTE_EVERY_MS = 1_000

const STATUS_LINE_BYTES = 'HTTP/1.1 200'.length

/** More than the kernel takes for a client that does not read: its send buffer has 4 MB. */
const LARGE_BYTES = 8 * MB

/** Lasts at the pace below for far longer than a client may take nothing. */
const HUGE_BYTES = 64 * MB

/** The kernel takes a third of its send buffer at a time, which is then some times a second. */
const PACE_BYTES_PER_SECOND = 4 * MB

/** Read at the pace, it takes more than twice as long as a client may take nothing. */
const SLOW_BYTES = 36 * MB

/**
 * The window of a stream, far smaller than the response, so that it has to be reopened repeatedly.
 */
const WINDOW_BYTES = 128 * 1_024

/** Longer than a machine stalls: others are served meanwhile, and slow readers go on. */
const timeouts = { headers: '4s', request: '4s', keepAlive: '4s', send: '4s' }

/** Addresses of slow clients; other clients use another one. */
const addresses = ['127.0.0.2', '127.0.0.3'] as const

const stops: (() => unknown)[] = []
let gateway: ProbedGateway
let upstream: RecordingUpstream

beforeAll(async () => {
  const atEnd = (stop: () => unknown) => void stops.push(stop)
  const bodies = new Map([
    ['/large', Buffer.from(okWith('x'.repeat(LARGE_BYTES)))],
    ['/huge', Buffer.from(okWith('x'.repeat(HUGE_BYTES)))],
  ])
  upstream = await startRecordingUpstream((request, socket) => {
    const body = bodies.get(request.target)
    if (body === undefined) return echo(request, socket)
    socket.write(body)
    return undefined
  }, atEnd)
  const policy = {
    gateway: { timeouts, connectionsPerIpMax: 2_000 },
    upstreams: { api: { targets: [upstream.url] } },
  }
  gateway = await startProbedGateway(policy, { atEnd })
})

afterAll(async () => {
  for (const stop of stops.reverse()) await stop()
})

interface SlowClient {
  readonly isClosed: () => boolean
}

/** Sends the text, and then a byte every second until it is disconnected. */
function slowSender(text: string, byte: string): SlowClient {
  const socket = quietSocket()
  socket.write(text)
  const timer = setInterval(() => socket.write(byte), BYTE_EVERY_MS)
  let isClosed = false
  socket.resume().on('close', () => {
    isClosed = true
    clearInterval(timer)
  })
  return { isClosed: () => isClosed }
}

/** Requests a large response and does not read it. A client that is refused has nothing to read. */
function slowReader(path: string, from?: LocalPlace): SlowClient & { socket: Socket } {
  const socket = quietSocket(from)
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a.example\r\n\r\n`)
  let isClosed = false
  let timer: NodeJS.Timeout | undefined
  socket.once('readable', () => {
    const start = String(socket.read(STATUS_LINE_BYTES) ?? '')
    if (!start.endsWith('200')) socket.resume()
    // A disconnected client notices it only when it sends something.
    else timer = setInterval(() => socket.write('\r\n'), BYTE_EVERY_MS)
  })
  socket.on('close', () => {
    isClosed = true
    clearInterval(timer)
  })
  return { socket, isClosed: () => isClosed }
}

let sockets = 0

interface LocalPlace {
  readonly localAddress: string
  readonly localPort?: number
}

function quietSocket(from?: LocalPlace): Socket {
  const localAddress = addresses[sockets++ % addresses.length] ?? LOOPBACK
  const socket = connect({ port: gateway.port, host: LOOPBACK, localAddress, ...from })
  stops.push(() => socket.destroy())
  return socket.on('error', () => undefined)
}

/** An HTTP/2 request whose body never stalls and never ends. */
async function slowHttp2Body(): Promise<SlowClient> {
  const { tls } = makeTls()
  const { port } = await startTestGateway({
    gateway: { tls, timeouts: { request: '1s' }, bodyRateMin: '1b' },
    upstreams: { api: { targets: ['http://127.0.0.1:1'] } },
  })
  const client = await FrameClient.connect(port)
  const id = client.newStream()
  const fields = block(requestFields('/slow', [':method', 'POST']))
  client.send(frame(frameTypes.headers, flags.endHeaders, id, fields))
  const timer = setInterval(() => {
    client.send(frame(frameTypes.data, 0, id, Buffer.from('0123456789')))
  }, BYTE_EVERY_MS)
  stops.push(() => clearInterval(timer))
  return { isClosed: () => client.isOver(id) }
}

/** Sends requests of other clients until all slow ones are disconnected; returns their results. */
async function servedUntilClosed(slow: readonly SlowClient[]): Promise<readonly string[]> {
  const lines: string[] = []
  const ask = 'GET /other HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n'
  await until('all slow clients are cut off', async () => {
    const text = await sendRaw(gateway.port, ask).catch(String)
    lines.push(text.slice(0, text.indexOf('\r\n')))
    return slow.every(({ isClosed }) => isClosed())
  })
  return lines
}

const head = 'GET /slow HTTP/1.1\r\nHost: a.example\r\nX-Slow: '
const post = 'POST /slow HTTP/1.1\r\nHost: a.example\r\n'

const once = 'GET /once HTTP/1.1\r\nHost: a.example\r\n\r\n'

const many = (count: number, make: () => SlowClient) => Array.from({ length: count }, make)

describe('slow clients are cut off, and others are served meanwhile', () => {
  test('400 that send slowly, 40 that do not read, and some that only stay', async () => {
    const before = await gateway.probe()
    const lengths = `${post}Content-Length: 100000\r\n\r\n`
    const chunks = `${post}Transfer-Encoding: chunked\r\n\r\n`
    const slow = [
      ...many(200, () => slowSender(head, 'x')),
      ...many(100, () => slowSender(lengths, 'x')),
      ...many(100, () => slowSender(chunks, '1\r\nx\r\n')),
      ...many(40, () => slowReader('/large')),
      ...['', once].flatMap((start) => many(10, () => slowSender(start, ''))),
      ...['', once].flatMap((start) => many(10, () => slowSender(start, '\r\n'))),
      await slowHttp2Body(),
    ]
    expect(new Set(await servedUntilClosed(slow))).toEqual(new Set(['HTTP/1.1 200 OK']))
    await until('their memory is free', async () => {
      return (await gateway.probe()).held - before.held < 10 * MB
    })
  })
})

/** Both use the same port, by which some connection tables identify a client. */
describe('of two clients with the same port on different addresses', () => {
  const [stalledAddress, slowAddress] = addresses

  test('one that takes nothing is cut off, and one that reads slowly gets everything', async () => {
    const stalled = slowReader('/huge', { localAddress: stalledAddress })
    const localPort = await until('it has a port', () => stalled.socket.localPort)
    const slow = quietSocket({ localAddress: slowAddress, localPort })
    const bytes = readAtPace(slow, () => !stalled.isClosed())
    slow.write('GET /huge HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n')
    await until('the one that takes nothing is cut off', () => stalled.isClosed())
    await until('the other has ended', () => slow.closed)
    expect(bytes()).toBeGreaterThan(HUGE_BYTES)
  })

  test('it is the same over HTTP/2', async () => {
    const port = await startHttp2Gateway()
    const stalled = await openHttp2(port, { localAddress: stalledAddress })
    const { localPort } = stalled.socket
    if (localPort === undefined) throw new Error('it is not connected')
    const slow = await openHttp2(port, { localAddress: slowAddress, localPort })
    stalled.request(requestFields('/huge'))
    stalled.socket.pause()
    keepSending(() => stalled.send(frame(frameTypes.ping, 0, 0, Buffer.alloc(8))))
    readAtPace(slow.socket, () => !stalled.isClosed)
    const id = slow.request(requestFields('/huge'))
    await until('the one that takes nothing is cut off', () => stalled.isClosed)
    await until('the other has ended', () => slow.isOver(id))
    expect(slow.answer(id)).toMatchObject({ status: 200, reset: undefined })
    expect(slow.answer(id).body).toHaveLength(HUGE_BYTES)
  })
})

describe('of two streams of one HTTP/2 connection', () => {
  test('one whose window stays closed is reset, and one that is read slowly ends', async () => {
    const client = await FrameClient.connect(await startHttp2Gateway(), WINDOW_BYTES)
    client.send(uint32Frame(frameTypes.windowUpdate, 0, 2 ** 30))
    const stalled = client.request(requestFields('/huge'))
    const slow = client.request(requestFields('/large'))
    const open = (bytes: number) => client.send(uint32Frame(frameTypes.windowUpdate, slow, bytes))
    keepSending(() => open(WINDOW_BYTES))
    await until('the first is reset', () => client.isOver(stalled))
    expect(client.answer(stalled).reset).toBe(errorCodes.internal)
    expect(client.answer(slow)).toMatchObject({ status: 200, isEnded: false })
    open(LARGE_BYTES)
    await until('the second has ended', () => client.isOver(slow))
    expect(client.answer(slow)).toMatchObject({ status: 200, reset: undefined })
    expect(client.answer(slow).body).toHaveLength(LARGE_BYTES)
    expect(client.isClosed).toBe(false)
  })
})

/** A second gateway with the same timeouts. */
async function startHttp2Gateway(): Promise<number> {
  const { tls } = makeTls()
  const { port } = await startTestGateway({
    gateway: { tls, timeouts },
    upstreams: { api: { targets: [upstream.url] } },
  })
  return port
}

/** A client with large windows, so that only its socket can stall a response. */
async function openHttp2(port: number, from: LocalPlace): Promise<FrameClient> {
  const client = await FrameClient.connect(port, 2 ** 30, from)
  client.send(uint32Frame(frameTypes.windowUpdate, 0, 2 ** 30))
  return client
}

function keepSending(send: () => void): void {
  const timer = setInterval(send, BYTE_EVERY_MS)
  onTestFinished(() => clearInterval(timer))
}

/**
 * Reads at the given pace for several seconds and while `hasTo` returns true, then faster; returns
 * the bytes.
 */
function readAtPace(socket: Socket, hasTo: () => boolean): () => number {
  const startMs = performance.now()
  let bytes = 0
  socket.on('data', (chunk) => {
    bytes += chunk.length
    const aheadMs = (bytes / PACE_BYTES_PER_SECOND) * 1_000 - (performance.now() - startMs)
    if (aheadMs <= 0 || (bytes > SLOW_BYTES && !hasTo())) return
    socket.pause()
    setTimeout(() => socket.resume(), aheadMs)
  })
  return () => bytes
}
