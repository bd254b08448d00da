/**
 * For all bytes of a client, the upstream reads exactly one request for every accepted request, and
 * none for others. Other clients, whose requests share its connections, get their own responses.
 */

import { describe, expect, test } from 'vitest'
import { flags, frame, frameTypes } from '../../packages/server/src/rls/transport/http2/frames.ts'
import { openRaw, sendRaw } from '../e2e/gateway/raw-client.ts'
import { startTestGateway } from '../e2e/gateway/test-gateway.ts'
import { until } from '../support/servers/until.ts'
import { downgradeShapes } from './downgrade-shapes.ts'
import { block, type Fields, FrameClient, makeTls, requestFields } from './frame-client.ts'
import { type RecordingUpstream, startRecordingUpstream } from './recording-upstream.ts'
import { type Shape, smugglingShapes } from './smuggling-shapes.ts'

/**
 * Some shapes wait for more bytes until they time out. Longer than a machine stalls, because valid
 * requests have to be read in time.
 */
const timeouts = { headers: '3s', request: '3s', keepAlive: '10ms' }

async function start(gateway: object = {}) {
  const upstream = await startRecordingUpstream()
  const upstreams = { api: { targets: [upstream.url], retries: 0, connectionsMax: 4 } }
  const policy = { gateway: { timeouts, ...gateway }, upstreams }
  return { upstream, gateway: await startTestGateway(policy) }
}

const numbered = (text: string, at: number) => text.replaceAll('-000', `-${100 + at}`)

/** Sends the bytes and reads until the gateway closes the connection. */
async function sendShape(port: number, bytes: string): Promise<string> {
  const { socket, received } = openRaw(port)
  socket.write(bytes, 'latin1')
  await until('the connection ends', () => socket.closed)
  return received()
}

/** Sends requests repeatedly until `isOver` returns true, each for another path. */
async function askMeanwhile(port: number, isOver: () => boolean): Promise<string[]> {
  const wrong: string[] = []
  for (let at = 0; !isOver(); at += 1) {
    const head = `GET /next/${at} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n`
    const text = await sendRaw(port, head)
    if (!text.startsWith('HTTP/1.1 200 ') || !text.endsWith(`<${`/next/${at}`}>`)) wrong.push(text)
  }
  return wrong
}

function seenBy({ requests }: RecordingUpstream, at: number): string[] {
  const number = numbered('-000', at)
  return requests.map(({ target }) => target).filter((target) => target.endsWith(number))
}

describe('over HTTP/1', () => {
  test('each of more than 100 shapes is one request for each that is accepted', async () => {
    const { upstream, gateway } = await start()
    let isOver = false
    const meanwhile = askMeanwhile(gateway.port, () => isOver)
    const send = async ([name, bytes]: Shape, at: number) => {
      const text = await sendShape(gateway.port, numbered(bytes, at))
      const statuses = Array.from(text.matchAll(/HTTP\/1\.1 (\d{3})/g), ([, status]) => `${status}`)
      const accepted = statuses.filter((status) => status.startsWith('2')).length
      const failed = statuses.filter((status) => /^5(?!01)/.test(status))
      const seen = seenBy(upstream, at)
      const isRight = seen.length === accepted && failed.length === 0
      return isRight ? [] : [{ name, statuses, seen }]
    }
    const wrong = (await Promise.all(smugglingShapes.map(send))).flat()
    isOver = true
    expect(wrong).toEqual([])
    expect(await meanwhile).toEqual([])
    expect(upstream.ambiguities).toEqual([])
    expect(smugglingShapes.length).toBeGreaterThan(100)
  })

  test('a body is a body, whatever stands in it', async () => {
    const { upstream, gateway } = await start()
    const inner = 'GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n'
    const head = (...fields: string[]) =>
      `POST /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${fields.join('\r\n')}\r\n`
    const size = inner.length.toString(16)
    await sendShape(gateway.port, `${head(`Content-Length: ${inner.length}`)}\r\n${inner}`)
    await sendShape(
      gateway.port,
      `${head('Transfer-Encoding: chunked')}\r\n${size}\r\n${inner}\r\n0\r\n\r\n`,
    )
    expect(upstream.requests.map(({ target, body }) => [target, body])).toEqual([
      ['/a', inner],
      ['/a', inner],
    ])
  })

  test('what follows a request that was refused is never taken for part of another', async () => {
    const { upstream, gateway } = await start({ bodyBytesMax: '10b' })
    const inner = 'GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n'
    const fields = ['Host: a', `Content-Length: ${inner.length}`]
    const text = await sendShape(
      gateway.port,
      `POST /a HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n${inner}`,
    )
    expect(text.match(/^HTTP\/1.1 \d+/gm)).toEqual(['HTTP/1.1 413'])
    expect(upstream.requests).toEqual([])
  })
})

describe('over HTTP/2', () => {
  test('each of more than 40 shapes is one request if it is accepted, else none', async () => {
    const { tls } = makeTls()
    const { upstream, gateway } = await start({ tls, timeouts: {} })
    const wrong: object[] = []
    for (const [at, [name, fields, body]] of downgradeShapes.entries()) {
      const client = await FrameClient.connect(gateway.port)
      const method: Fields = body === undefined ? [] : [[':method', 'POST']]
      const own = fields.map(([field, value]) => [field, numbered(value, at)] as const)
      const others = method.filter(([field]) => own.every(([name]) => name !== field))
      const id = client.request(requestFields(numbered('/outer-000', at), ...others, ...own), body)
      await until(`${name} is answered`, () => client.isOver(id))
      const { status } = client.answer(id)
      const seen = seenBy(upstream, at)
      const expected = status === 200 ? [numbered('/outer-000', at)] : []
      if (seen.join() !== expected.join() || status >= 500) wrong.push({ name, status, seen })
      client.socket.destroy()
    }
    expect(wrong).toEqual([])
    expect(upstream.ambiguities).toEqual([])
    expect(downgradeShapes.length).toBeGreaterThan(40)
    const client = await FrameClient.connect(gateway.port)
    const id = client.request(requestFields('/next'))
    await until('the next is answered', () => client.isOver(id))
    expect(client.answer(id)).toMatchObject({ status: 200, body: '</next>' })
  })

  test('a pseudo field behind others, or in trailers, changes nothing', async () => {
    const { tls } = makeTls()
    const { upstream, gateway } = await start({ tls })
    const late = await FrameClient.connect(gateway.port)
    const id = late.request([...requestFields('/a', ['x-a', 'b']), [':path', '/smuggled']])
    await until('it is answered', () => late.isOver(id))
    const client = await FrameClient.connect(gateway.port)
    const stream = client.newStream()
    const head = block(requestFields('/b', [':method', 'POST']))
    const trailers = block([
      [':path', '/smuggled'],
      ['content-length', '3'],
      ['x-forwarded-for', '6'],
    ])
    client.send(
      frame(frameTypes.headers, flags.endHeaders, stream, head),
      frame(frameTypes.data, 0, stream, Buffer.from('abc')),
      frame(frameTypes.headers, flags.endHeaders | flags.endStream, stream, trailers),
    )
    await until('it is answered', () => client.isOver(stream))
    expect(upstream.requests.map(({ target }) => target)).not.toContain('/smuggled')
    expect(upstream.ambiguities).toEqual([])
  })
})
