/** Idempotency keys of HTTP/2 clients: many streams of one connection, resets and trailers. */

import { randomUUID } from 'node:crypto'
import { type ClientHttp2Stream, connect } from 'node:http2'
import type { IdempotencyEvent } from 'tidegate/idempotency'
import { expect, onTestFinished, test } from 'vitest'
import { makeTls } from '../../security/frame-client.ts'
import { until } from '../../support/servers/until.ts'
import { startTestGateway } from './test-gateway.ts'
import { startUpstream } from './test-upstream.ts'

type Answer = NonNullable<Parameters<typeof startUpstream>[0]>

async function serve(answer: Answer, more: object = {}) {
  const upstream = await startUpstream(answer)
  const { tls } = makeTls()
  const upstreams = { api: { targets: [upstream.url] } }
  const events: string[] = []
  const gateway = await startTestGateway(
    { gateway: { tls, ...more }, upstreams, limits: [], idempotency: {} },
    { onIdempotency: ({ type }: IdempotencyEvent) => void events.push(type) },
  )
  const session = connect(`https://127.0.0.1:${gateway.port}`, { rejectUnauthorized: false })
  onTestFinished(() => session.destroy())
  const open = (key: string, body = 'one') => {
    const fields = { ':method': 'POST', ':path': '/orders', 'x-api-key': 'ada' }
    const stream = session.request({ ...fields, 'idempotency-key': key })
    stream.end(body)
    return stream
  }
  // Frames are answered in their order, so that the gateway has read all those before.
  const received = () => new Promise((resolve) => void session.ping(resolve))
  return {
    upstream,
    events,
    open,
    session,
    received,
    post: (key: string, body?: string) => read(open(key, body)),
  }
}

async function read(stream: ClientHttp2Stream) {
  const head = new Promise<Record<string, unknown>>((resolve) => stream.once('response', resolve))
  let trailers: object | undefined
  stream.once('trailers', (fields) => {
    trailers = { 'x-sum': fields['x-sum'] }
  })
  let body = ''
  for await (const chunk of stream.setEncoding('utf8')) body += chunk
  const { ':status': status, 'idempotent-replayed': replayed } = await head
  return { status, replayed, body, trailers }
}

test('a hundred streams with one key reach the upstream once', async () => {
  let runs = 0
  const { post, upstream } = await serve((_, response) => void response.end(`run ${++runs}`))
  const key = randomUUID()
  const answers = await Promise.all(Array.from({ length: 100 }, () => post(key)))
  expect(new Set(answers.map(({ status, body }) => `${status} ${body}`))).toEqual(
    new Set(['200 run 1']),
  )
  expect(answers.filter(({ replayed }) => replayed === 'true')).toHaveLength(99)
  expect((await post(key, 'other')).status).toBe(422)
  expect(upstream.seen).toHaveLength(1)
})

test('a stream that is reset does not end its execution', async () => {
  const held: (() => void)[] = []
  const { open, post, received, upstream, events } = await serve((_, response) => {
    held.push(() => response.end('done'))
  })
  const key = randomUUID()
  const stream = open(key)
  stream.on('error', () => undefined)
  await until('the upstream has it', async () => upstream.seen.length === 1)
  stream.close(8)
  await received()
  for (const end of held) end()
  await until('the response is kept', async () => events.includes('kept'))
  expect(await post(key)).toMatchObject({ status: 200, body: 'done', replayed: 'true' })
  expect(upstream.seen).toHaveLength(1)
})

test('a response with trailers is sent with them, and not kept', async () => {
  const { post, upstream } = await serve((_, response) => {
    response.writeHead(200, { trailer: 'x-sum' })
    response.write('body')
    response.addTrailers({ 'x-sum': '1' })
    response.end()
  })
  const key = randomUUID()
  expect(await post(key)).toMatchObject({ status: 200, body: 'body', trailers: { 'x-sum': '1' } })
  const again = await post(key)
  expect([again.status, JSON.parse(again.body).code]).toEqual([409, 'response-not-kept'])
  expect(upstream.seen).toHaveLength(1)
})

test('a body that stalls is refused with 408, as without a key', async () => {
  const { session, upstream } = await serve((_, response) => void response.end('late'), {
    timeouts: { request: '1s' },
  })
  const fields = { ':method': 'POST', ':path': '/orders', 'x-api-key': 'ada' }
  const answers = [{}, { 'idempotency-key': randomUUID() }].flatMap((more) =>
    ['half', 'x'.repeat(50_000)].map((body) => {
      const stream = session.request({ ...fields, ...more })
      stream.write(body)
      return read(stream)
    }),
  )
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([408, 408, 408, 408])
  expect(upstream.seen).toHaveLength(0)
})
