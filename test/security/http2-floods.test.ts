/**
 * Floods of frames that are cheap for a client. The connection is closed or stays within its
 * bounds; other clients are served meanwhile, and memory does not grow.
 */

import { readFileSync } from 'node:fs'
import { type ClientHttp2Session, connect } from 'node:http2'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  flags,
  frame,
  frameTypes,
  uint32Frame,
} from '../../packages/server/src/rls/transport/http2/frames.ts'
import { LOOPBACK } from '../support/servers/ports.ts'
import { until } from '../support/servers/until.ts'
import { block, FrameClient, makeTls, requestFields, resetFrame } from './frame-client.ts'
import { MB, type ProbeAnswer, type ProbedGateway, startProbedGateway } from './probed-gateway.ts'
import { echo, type RecordingUpstream, startRecordingUpstream } from './recording-upstream.ts'

/** Streams per kind of flood; a connection that can open them all is unbounded. */
const STREAMS = 20_000
const FRAMES_AT_ONCE = 500

const ADMITTED_MAX = 100

const head = block(requestFields('/flood'))
const post = block(requestFields('/flood', [':method', 'POST']))
const begin = (id: number) => frame(frameTypes.headers, flags.endHeaders, id, post)
const open = (id: number) => frame(frameTypes.headers, flags.endHeaders | flags.endStream, id, head)

/** Frames for each stream that make the server abort it. */
const streams: readonly (readonly [name: string, frames: (id: number) => Uint8Array[]])[] = [
  ['streams that it resets', (id) => [open(id), resetFrame(id)]],
  [
    'streams with a window that opens by 0',
    (id) => [begin(id), uint32Frame(frameTypes.windowUpdate, id, 0)],
  ],
  [
    'streams with a window that overflows',
    (id) => [begin(id), uint32Frame(frameTypes.windowUpdate, id, 2 ** 31 - 1)],
  ],
  [
    'streams with data behind their end',
    (id) => [open(id), frame(frameTypes.data, 0, id, Buffer.from('x'))],
  ],
  ['streams with a head behind their end', (id) => [open(id), open(id)]],
  [
    'streams that depend on themselves',
    (id) => [
      begin(id),
      frame(frameTypes.priority, 0, id, Buffer.from([id >>> 24, id >>> 16, id >>> 8, id, 1])),
    ],
  ],
  [
    'streams with a priority of the wrong length',
    (id) => [begin(id), frame(frameTypes.priority, 0, id, Buffer.alloc(4))],
  ],
  [
    'streams with more data than they said',
    (id) => [
      frame(
        frameTypes.headers,
        flags.endHeaders,
        id,
        block(requestFields('/flood', [':method', 'POST'], ['content-length', '1'])),
      ),
      frame(frameTypes.data, 0, id, Buffer.from('xx')),
    ],
  ],
]

const stops: (() => unknown)[] = []
let upstream: RecordingUpstream
let gateway: ProbedGateway
let session: ClientHttp2Session

beforeAll(async () => {
  const atEnd = (stop: () => unknown) => void stops.push(stop)
  const { tls } = makeTls(atEnd)
  upstream = await startRecordingUpstream(echo, atEnd)
  const flooded = { match: { path: '/flood' }, key: 'everyone', limit: ADMITTED_MAX, per: '1h' }
  const policy = {
    // A trusted proxy is never held off, so that one flood does not prevent the next.
    gateway: { tls, trustProxy: [LOOPBACK] },
    upstreams: { api: { targets: [upstream.url] } },
    limits: [{ name: 'flood', algorithm: 'fixedWindow', ...flooded }],
  }
  gateway = await startProbedGateway(policy, { atEnd })
  session = connect(gateway.url.replace('http', 'https'), { ca: readFileSync(tls.cert) })
  session.on('error', () => undefined)
  stops.push(() => session.destroy())
  await ask('/first')
})

afterAll(async () => {
  for (const stop of stops.reverse()) await stop()
})

/** A request of a harmless client. */
function ask(path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ':path': path })
    let body = ''
    stream.setEncoding('latin1')
    stream.on('data', (text) => {
      body += text
    })
    stream.on('end', () => resolve(body)).on('error', reject)
  })
}

/** A process that stalls frees the memory of a connection a moment after its end. */
async function untilFree(before: ProbeAnswer, megabytes: number): Promise<void> {
  await until(`less than ${megabytes} MB more are held`, async () => {
    return (await gateway.probe()).held - before.held < megabytes * MB
  })
}

/** Sends until all frames are sent or the connection is closed; returns the number sent. */
async function flood(client: FrameClient, frames: (at: number) => Uint8Array[], count: number) {
  let sent = 0
  while (sent < count && !client.isClosed && client.goAway === undefined) {
    const some: Uint8Array[] = []
    for (let at = 0; at < FRAMES_AT_ONCE && sent < count; at += 1, sent += 1) {
      some.push(...frames(sent))
    }
    client.send(...some)
    await until('it is taken', () => client.isClosed || client.socket.writableLength < 65_536)
  }
  return sent
}

describe('a client that opens', () => {
  test.each(streams)('%s is stopped', async (_name, frames) => {
    const before = await gateway.probe()
    const client = await FrameClient.connect(gateway.port)
    let isOver = false
    const others = (async () => {
      const wrong: string[] = []
      for (let at = 0; !isOver || at < 20; at += 1) {
        const body = await ask(`/other/${at}`)
        if (body !== `</other/${at}>`) wrong.push(body)
      }
      return wrong
    })()
    await flood(client, () => frames(client.newStream()), STREAMS)
    await until('it is closed', () => client.isClosed || client.goAway !== undefined)
    isOver = true
    expect(await others).toEqual([])
    // Streams are charged when they begin, so aborted ones are charged too.
    const flooded = upstream.requests.filter(({ target }) => target === '/flood')
    expect(flooded.length).toBeLessThanOrEqual(ADMITTED_MAX)
    await untilFree(before, 10)
  })
})

describe('a client that sends', () => {
  test('a head without an end is closed', async () => {
    const before = await gateway.probe()
    const client = await FrameClient.connect(gateway.port)
    const id = client.newStream()
    client.send(frame(frameTypes.headers, flags.endStream, id, head))
    const rest = block([['x-a', 'b'.repeat(16_000)]])
    const sent = await flood(client, () => [frame(frameTypes.continuation, 0, id, rest)], STREAMS)
    await until('it is closed', () => client.isClosed || client.goAway !== undefined)
    expect(sent).toBeLessThan(STREAMS)
    expect(await ask('/other')).toBe('</other>')
    await untilFree(before, 10)
  })

  test('empty continuations of a head is closed', async () => {
    const client = await FrameClient.connect(gateway.port)
    const id = client.newStream()
    client.send(frame(frameTypes.headers, flags.endStream, id, head))
    const empty = frame(frameTypes.continuation, 0, id, Buffer.alloc(0))
    await flood(client, () => [empty], STREAMS)
    await until('it is closed', () => client.isClosed || client.goAway !== undefined)
    expect(await ask('/other')).toBe('</other>')
  })

  test.each([
    ['pings', () => [frame(frameTypes.ping, 0, 0, Buffer.alloc(8))]],
    ['settings', () => [frame(frameTypes.settings, 0, 0, Buffer.alloc(0))]],
  ])('%s and reads no answer to them holds no memory', async (_name, frames) => {
    const before = await gateway.probe()
    const client = await FrameClient.connect(gateway.port)
    client.socket.pause()
    let sent = 0
    while (sent < 500_000 && !client.isClosed && client.socket.writableLength < MB) {
      client.send(...Array.from({ length: 5_000 }, frames).flat())
      sent += 5_000
      await ask(`/other/${sent}`)
    }
    await untilFree(before, 15)
  })

  test('a head that is larger unpacked than packed is refused', async () => {
    const client = await FrameClient.connect(gateway.port)
    const id = client.newStream()
    const value = Buffer.alloc(4_000, 'b')
    // One field for the dynamic table, and 4,000 references to it, one byte each.
    const length = Buffer.from([0x7f, 0xa1, 0x1e])
    const indexed = Buffer.concat([Buffer.from([0x40, 3]), Buffer.from('x-a'), length, value])
    const references = Buffer.alloc(4_000, 0x80 | 62)
    const bomb = Buffer.concat([block(requestFields('/large')), indexed, references])
    client.send(frame(frameTypes.headers, flags.endHeaders | flags.endStream, id, bomb))
    await until('it is answered', () => client.isOver(id))
    expect([0, 431]).toContain(client.answer(id).status)
    expect(upstream.requests.map(({ target }) => target)).not.toContain('/large')
  })

  test.each([
    ['17 KB in one field', [['x-a', 'b'.repeat(17_000)]]],
    ['17 KB in many fields', Array.from({ length: 100 }, (_, at) => [`x-${at}`, 'b'.repeat(170)])],
    ['200 fields', Array.from({ length: 200 }, (_, at) => [`x-${at}`, 'b'])],
  ] as const)('%s is refused', async (_name, fields) => {
    const client = await FrameClient.connect(gateway.port)
    const id = client.newStream()
    const large = block([...requestFields('/large'), ...(fields as [string, string][])])
    client.send(
      frame(frameTypes.headers, flags.endStream, id, large.subarray(0, 16_000)),
      frame(frameTypes.continuation, flags.endHeaders, id, large.subarray(16_000)),
    )
    await until('it is answered', () => client.isOver(id))
    expect([0, 431]).toContain(client.answer(id).status)
    expect(upstream.requests.map(({ target }) => target)).not.toContain('/large')
    expect(await ask('/other')).toBe('</other>')
  })
})
