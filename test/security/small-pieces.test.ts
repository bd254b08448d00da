/** Small chunks and resets, which are cheap for a client and must not delay others. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  errorCodes,
  flags,
  frame,
  frameTypes,
} from '../../packages/server/src/rls/transport/http2/frames.ts'
import { openRaw } from '../e2e/gateway/raw-client.ts'
import { startTestGateway } from '../e2e/gateway/test-gateway.ts'
import { startRawUpstream, startUpstream } from '../e2e/gateway/test-upstream.ts'
import { LOOPBACK } from '../support/servers/ports.ts'
import { until } from '../support/servers/until.ts'
import { block, FrameClient, makeTls, requestFields, resetFrame } from './frame-client.ts'

const BYTES = 400_000

/** One chunk per read of the socket; a read has at most 64 KB, often much less. */
const PIECES_MAX = BYTES / 20

const chunk = '1\r\nx\r\n'

describe('a body in chunks of one byte', () => {
  test('reaches the upstream in pieces of many', async () => {
    let pieces = 0
    let bytes = 0
    const upstream = await startUpstream()
    upstream.server.removeAllListeners('request')
    upstream.server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      request.on('data', (piece: Buffer) => {
        pieces += 1
        bytes += piece.length
      })
      request.on('end', () => response.end('all'))
    })
    const gateway = await startTestGateway({ upstreams: { api: { targets: [upstream.url] } } })
    const { socket, received } = openRaw(gateway.port)
    socket.write('POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n')
    socket.write(`${chunk.repeat(BYTES)}0\r\n\r\n`)
    await until('it is answered', () => received().includes('all'))
    expect(bytes).toBe(BYTES)
    expect(pieces).toBeLessThan(PIECES_MAX)
  })

  test('reaches the client in chunks of many', async () => {
    const upstream = await startRawUpstream((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
      socket.write(`${chunk.repeat(BYTES)}0\r\n\r\n`)
    })
    const gateway = await startTestGateway({ upstreams: { api: { targets: [upstream.url] } } })
    const socket = connect({ port: gateway.port, host: LOOPBACK })
    onTestFinished(() => void socket.destroy())
    let text = ''
    socket.setEncoding('latin1').on('data', (piece) => {
      text += piece
    })
    socket.write('GET / HTTP/1.1\r\nHost: a.example\r\n\r\n')
    await until('all is here', () => text.endsWith('\r\n0\r\n\r\n'))
    const body = text.slice(text.indexOf('\r\n\r\n'))
    expect(body.match(/x/g)).toHaveLength(BYTES)
    expect(text.match(/\r\n/g)?.length).toBeLessThan(PIECES_MAX)
  })
})

describe('a body in HTTP/2 frames of one byte', () => {
  const head = block(requestFields('/', [':method', 'POST']))

  async function start() {
    const upstream = await startUpstream((_request, response, body) => void response.end(body))
    const gateway = await startTestGateway({
      gateway: { tls: makeTls().tls },
      upstreams: { api: { targets: [upstream.url] } },
    })
    const client = await FrameClient.connect(gateway.port)
    const id = client.newStream()
    client.send(frame(frameTypes.headers, flags.endHeaders, id, head))
    return { upstream, gateway, client, id }
  }

  test('is forwarded if it is short', async () => {
    const { client, id } = await start()
    const letters = Array.from({ length: 1_500 }, (_, at) => String.fromCharCode(97 + (at % 26)))
    const frames = letters.map((letter) => frame(frameTypes.data, 0, id, Buffer.from(letter)))
    client.send(...frames, frame(frameTypes.data, flags.endStream, id, Buffer.alloc(0)))
    await until('it is answered', () => client.isOver(id))
    expect(client.answer(id)).toMatchObject({ status: 200, body: letters.join('') })
  })

  test('ends the connection if it is long', async () => {
    const { gateway, client, id } = await start()
    const one = frame(frameTypes.data, 0, id, Buffer.from('x'))
    client.send(...Array.from({ length: 20_000 }, () => one))
    await until('it is closed', () => client.isClosed)
    // It is lost if bytes are unread when the connection is closed: the kernel resets it then.
    expect([errorCodes.enhanceYourCalm, undefined]).toContain(client.goAway)
    const other = await FrameClient.connect(gateway.port)
    const health = other.request(requestFields('/health'))
    await until('another is served', () => other.isOver(health))
    expect(other.answer(health).status).toBe(200)
    expect(gateway.loggedText()).not.toContain('gateway.error')
  })
})

describe('a client that resets its streams', () => {
  test('is disconnected after as many streams as it may have open', async () => {
    const streamsMax = 20
    const upstream = await startUpstream()
    const gateway = await startTestGateway({
      gateway: { tls: makeTls().tls, streamsMax },
      upstreams: { api: { targets: [upstream.url] } },
    })
    const client = await FrameClient.connect(gateway.port)
    const get = block(requestFields('/'))
    const all = flags.endHeaders | flags.endStream
    const open = () => {
      const id = client.newStream()
      client.send(frame(frameTypes.headers, all, id, get), resetFrame(id))
    }
    for (let count = 0; count < streamsMax; count += 1) open()
    const id = client.request(requestFields('/health'))
    await until('it is served', () => client.isOver(id))
    expect(client.answer(id).status).toBe(200)
    for (let count = 0; count < 20 * streamsMax; count += 1) open()
    await until('it is closed', () => client.isClosed || client.goAway !== undefined)
  })
})
