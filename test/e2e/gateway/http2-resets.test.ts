/** HTTP/2 clients that flood a connection: attackers are stopped, users may leave a page. */

import { describe, expect, test } from 'vitest'
import {
  errorCodes,
  flags,
  frame,
  frameTypes,
} from '../../../packages/server/src/rls/transport/http2/frames.ts'
import {
  block,
  FrameClient,
  makeTls,
  requestFields,
  resetFrame,
} from '../../security/frame-client.ts'
import { until } from '../../support/servers/until.ts'
import { startTestGateway } from './test-gateway.ts'
import { startUpstream } from './test-upstream.ts'

const ATTACKER = { localAddress: '127.0.0.2' }
const WINDOW_BYTES = 65_535
const STREAMS_MAX = 100

const head = block(requestFields('/a'))
const open = (id: number) => frame(frameTypes.headers, flags.endHeaders | flags.endStream, id, head)

async function start(gateway: object = {}) {
  // It never answers.
  const upstream = await startUpstream(() => undefined)
  const { tls } = makeTls()
  const policy = { gateway: { tls, ...gateway }, upstreams: { api: { targets: [upstream.url] } } }
  return { upstream, gateway: await startTestGateway(policy) }
}

/**
 * The GOAWAY is lost if bytes of the attacker are still unread when the connection is closed: the
 * kernel resets it then.
 */
const reasons = [errorCodes.enhanceYourCalm, undefined]

/** Frames to send again and again, until the connection is closed. */
type Attack = (client: FrameClient) => Buffer[]

const times = (count: number, make: () => Buffer[]) => Array.from({ length: count }, make).flat()

const resets: Attack = (client) =>
  times(STREAMS_MAX + 20, () => {
    const id = client.newStream()
    return [open(id), resetFrame(id)]
  })

const attacks: Readonly<Record<string, Attack>> = {
  'resets streams as soon as it has opened them': resets,
  'sends a body in frames of one byte': (client) => {
    const id = client.newStream()
    const post = block(requestFields('/a', [':method', 'POST']))
    const one = frame(frameTypes.data, 0, id, Buffer.from('x'))
    return [frame(frameTypes.headers, flags.endHeaders, id, post), ...times(5_000, () => [one])]
  },
  'opens more streams than it may have': (client) => times(2_000, () => [open(client.newStream())]),
  // One read of the socket has more than the acknowledgements that nghttp2 keeps.
  'sends settings faster than they are acknowledged': () =>
    times(10_000, () => [frame(frameTypes.settings, 0, 0, Buffer.alloc(0))]),
}

async function attack(port: number, frames = resets): Promise<number | undefined> {
  const client = await FrameClient.connect(port, WINDOW_BYTES, ATTACKER)
  await until('it is closed', () => {
    if (!client.isClosed) client.send(...frames(client))
    return client.isClosed
  })
  return client.goAway
}

async function status(port: number, from = {}): Promise<number> {
  const client = await FrameClient.connect(port, WINDOW_BYTES, from)
  const id = client.request(requestFields('/health'))
  await until('it is answered', () => client.isOver(id))
  return client.answer(id).status
}

describe.each(Object.entries(attacks))('a client that %s', (_name, frames) => {
  test('is disconnected, and the third time it gets no connection for a while', async () => {
    const { gateway } = await start()
    for (let at = 0; at < 3; at += 1) {
      expect(reasons).toContain(await attack(gateway.port, frames))
    }
    await expect(status(gateway.port, ATTACKER)).rejects.toThrow()
    expect(gateway.logged()).toContainEqual(
      expect.objectContaining({ event: 'connection.refused', reason: 'heldOff' }),
    )
    expect(await status(gateway.port)).toBe(200)
  })
})

describe('a client that floods a connection', () => {
  test('is disconnected but not held off if it is a trusted proxy', async () => {
    const { gateway } = await start({ trustProxy: [ATTACKER.localAddress] })
    for (let at = 0; at < 4; at += 1) {
      expect(reasons).toContain(await attack(gateway.port))
    }
    expect(await status(gateway.port, ATTACKER)).toBe(200)
  })
})

describe('a client that', () => {
  test('leaves a page with as many streams as it may have stays connected', async () => {
    const { gateway } = await start()
    const client = await FrameClient.connect(gateway.port)
    const ids = Array.from({ length: STREAMS_MAX }, () => client.request(requestFields('/a')))
    client.send(...ids.map(resetFrame))
    const id = client.request(requestFields('/health'))
    await until('it is answered', () => client.isOver(id))
    expect(client.answer(id).status).toBe(200)
  })

  test('resets every second of 240 streams, and has the others answered, stays so', async () => {
    const { gateway } = await start()
    const client = await FrameClient.connect(gateway.port)
    for (let round = 0; round < 3; round += 1) {
      const ids = Array.from({ length: 40 }, () => {
        const left = client.request(requestFields('/a'))
        client.send(resetFrame(left))
        return client.request(requestFields('/health'))
      })
      await until('they are answered', () => ids.every((id) => client.isOver(id)))
    }
    expect([client.goAway, client.isClosed]).toEqual([undefined, false])
  })

  test('aborts requests that take too long is never disconnected', async () => {
    const { gateway, upstream } = await start()
    for (let at = 0; at < 4; at += 1) {
      const client = await FrameClient.connect(gateway.port, WINDOW_BYTES, ATTACKER)
      const before = upstream.seen.length
      const ids = Array.from({ length: STREAMS_MAX }, () => client.request(requestFields('/a')))
      const startMs = performance.now()
      await until('they wait', () => {
        return upstream.seen.length >= before + 50 && performance.now() - startMs > 300
      })
      client.send(...ids.map(resetFrame))
      client.socket.end()
      await until('it is closed', () => client.isClosed)
    }
    expect(await status(gateway.port, ATTACKER)).toBe(200)
  })
})
