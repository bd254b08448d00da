/**
 * Clients that send or take a byte now and then, to hold what others need. All are cut off within
 * the configured times, and others are served while they try.
 */

import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { flags, frame, frameTypes } from '../../packages/server/src/rls/http2/frames.ts'
import { sendRaw } from '../gateway/raw-client.ts'
import { startTestGateway } from '../gateway/test-gateway.ts'
import { LOOPBACK } from '../servers/ports.ts'
import { until } from '../servers/until.ts'
import { block, FrameClient, makeTls, requestFields } from './frame-client.ts'
import { MB, type ProbedGateway, startProbedGateway } from './probed-gateway.ts'
import { echo, okWith, startRecordingUpstream } from './recording-upstream.ts'

const BYTE_EVERY_MS = 1_000

const STATUS_LINE_BYTES = 'HTTP/1.1 200'.length

/** Others ask from another one. */
const addresses = ['127.0.0.2', '127.0.0.3']

const stops: (() => unknown)[] = []
let gateway: ProbedGateway

beforeAll(async () => {
  const atEnd = (stop: () => unknown) => void stops.push(stop)
  const large = Buffer.from(okWith('x'.repeat(8 * MB)))
  const upstream = await startRecordingUpstream((request, socket) => {
    if (request.target !== '/large') return echo(request, socket)
    socket.write(large)
    return undefined
  }, atEnd)
  const timeouts = { headers: '2s', request: '3s', keepAlive: '2s' }
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

/** Sends the text, and then a byte every second for as long as it is let. */
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

/** Asks for much and does not take it. Who gets no place and is told so has nothing to read. */
function slowReader(path: string): SlowClient {
  const socket = quietSocket()
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a.example\r\n\r\n`)
  let isClosed = false
  let timer: NodeJS.Timeout | undefined
  socket.once('readable', () => {
    const start = String(socket.read(STATUS_LINE_BYTES) ?? '')
    if (!start.endsWith('200')) socket.resume()
    // Who is cut off hears of it when they send something.
    else timer = setInterval(() => socket.write('\r\n'), BYTE_EVERY_MS)
  })
  socket.on('close', () => {
    isClosed = true
    clearInterval(timer)
  })
  return { isClosed: () => isClosed }
}

let sockets = 0

function quietSocket(): Socket {
  const localAddress = addresses[sockets++ % addresses.length] ?? LOOPBACK
  const socket = connect({ port: gateway.port, host: LOOPBACK, localAddress })
  stops.push(() => socket.destroy())
  return socket.on('error', () => undefined)
}

/** Over HTTP/2 a body never stands still, and never ends. */
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

/** How many others are served while at least half of the slow ones are still there. */
async function servedMeanwhile(slow: readonly SlowClient[]): Promise<number> {
  let served = 0
  while (slow.filter(({ isClosed }) => !isClosed()).length > slow.length / 2) {
    const head = 'GET /other HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n'
    const text = await sendRaw(gateway.port, head)
    if (!text.startsWith('HTTP/1.1 200')) throw new Error(text)
    served += 1
  }
  return served
}

const allClosed = (slow: readonly SlowClient[]) => slow.every(({ isClosed }) => isClosed())

const head = 'GET /slow HTTP/1.1\r\nHost: a.example\r\nX-Slow: '
const post = 'POST /slow HTTP/1.1\r\nHost: a.example\r\n'

const once = 'GET /once HTTP/1.1\r\nHost: a.example\r\n\r\n'

const many = (count: number, make: () => SlowClient) => Array.from({ length: count }, make)

describe('slow clients are cut off, and others are served meanwhile', () => {
  test('2,000 that send slowly, 200 that do not read, and some that only stay', async () => {
    const before = await gateway.probe()
    const heads = many(1_000, () => slowSender(head, 'x'))
    const lengths = many(500, () => slowSender(`${post}Content-Length: 100000\r\n\r\n`, 'x'))
    const chunks = many(500, () => {
      return slowSender(`${post}Transfer-Encoding: chunked\r\n\r\n`, '1\r\nx\r\n')
    })
    const readers = many(200, () => slowReader('/large'))
    const idle = [...many(20, () => slowSender('', '')), ...many(20, () => slowSender(once, ''))]
    const empty = ['', once].flatMap((start) => many(20, () => slowSender(start, '\r\n')))
    const http2 = await slowHttp2Body()
    const bodies = [...lengths, ...chunks]
    expect(await servedMeanwhile([...heads, ...bodies])).toBeGreaterThan(0)
    expect(await servedMeanwhile(readers)).toBeGreaterThan(0)
    await until('all heads are given up', () => allClosed(heads))
    await until('all bodies are given up', () => allClosed(bodies))
    await until('a body over HTTP/2 is given up', () => http2.isClosed())
    await until('all that say nothing are closed', () => allClosed(idle))
    await until('all that send nothing but empty lines are closed', () => allClosed(empty))
    await until('all readers are given up', () => allClosed(readers))
    await until('their memory is free', async () => {
      return (await gateway.probe()).held - before.held < 10 * MB
    })
  })
})
