import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, request as sendRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import {
  type Made,
  type Make,
  servers,
  type TestServer,
} from '../../../../../test/idempotency/keyed-servers.ts'
import { until } from '../../../../../test/support/servers/until.ts'
import type { Limit } from '../../algorithms/limit.ts'
import type { IdempotencyEvent } from '../../idempotency/idempotency-event.ts'
import type { IdempotencyOptions } from '../../idempotency/idempotency-options.ts'
import { memoryIdempotencyStore } from '../../idempotency/stores/memory-idempotency-store.ts'
import { tokenBucket } from '../../limits/limits.ts'
import { idempotency as keysOfNode } from './node.ts'

const text = (status: number, body: string): Made => ({
  status,
  headers: { 'content-type': 'text/plain' },
  body: Buffer.from(body),
})

const megabytes = (count: number) => randomBytes(count * 1_024 ** 2)

const chunks = [Buffer.from('one,'), Buffer.from('two,'), Buffer.from('three')]

/** Responses of every shape that are replayed as they were. */
const shapes: Readonly<Record<string, Made>> = {
  text: text(201, 'created'),
  empty: { status: 200, headers: {}, body: Buffer.alloc(0) },
  'no content': { status: 204, headers: {}, body: Buffer.alloc(0) },
  'not modified': { status: 304, headers: { etag: '"1"' }, body: Buffer.alloc(0) },
  redirect: { status: 303, headers: { location: '/orders/7' }, body: Buffer.alloc(0) },
  binary: {
    status: 200,
    headers: { 'content-type': 'application/octet-stream' },
    body: randomBytes(10_000),
  },
  'large text': text(200, 'a line that compresses well\n'.repeat(2_000)),
  gzip: {
    status: 200,
    headers: { 'content-type': 'text/plain', 'content-encoding': 'gzip' },
    body: gzipSync('compressed by the handler'),
  },
  streamed: { status: 200, headers: { 'content-type': 'text/plain' }, body: chunks },
  'client error': text(402, 'no money'),
  'server error': text(500, 'broken'),
}

describe.each(Object.entries(servers))('%s', (_, start) => {
  const open: TestServer[] = []
  afterEach(async () => {
    for (const server of open.splice(0)) await server.close()
  })

  async function serve(make: Make, options: IdempotencyOptions = {}, limit?: Limit) {
    const calls: string[] = []
    const counted: Make = (path, body) => {
      calls.push(`${path} ${body}`)
      return make(path, body)
    }
    const server = await start(counted, options, limit)
    open.push(server)
    const post = async (key: string | undefined, more: Partial<Sent> = {}) => {
      const { path = '/orders', body = '{"item":1}', user = 'ada', method = 'POST', signal } = more
      const sent: Record<string, string> = { 'x-user': user, 'content-type': 'text/plain' }
      if (key !== undefined) sent['idempotency-key'] = key
      const response = await fetch(server.url + path, {
        ...{ method, body, headers: sent, redirect: 'manual', duplex: 'half' },
        ...(signal !== undefined && { signal }),
        headers: { ...sent, ...(more.stored && { 'accept-encoding': 'identity' }) },
      })
      const { status, headers } = response
      return { status, headers, bytes: Buffer.from(await response.arrayBuffer()) }
    }
    return { calls, post }
  }

  interface Sent {
    readonly path: string
    readonly body: string | ReadableStream
    readonly user: string
    readonly method: string
    readonly signal: AbortSignal
    readonly stored: boolean
  }

  const replayed = ({ headers }: { headers: Headers }) => headers.get('idempotent-replayed')

  it('counts each key once with isCharged, however often it is executed', async () => {
    const statuses = [503, 503, 201]
    const make = async () => text(statuses.shift() ?? 500, 'made')
    const { post, calls } = await serve(make, {}, tokenBucket({ limit: 1, per: '1h' }))
    const key = randomUUID()
    const seen = [await post(key), await post(key), await post(key), await post(key)]
    expect(seen.map(({ status }) => status)).toEqual([503, 503, 201, 201])
    const other = randomUUID()
    expect([(await post(other)).status, (await post(other)).status]).toEqual([429, 429])
    expect(calls).toHaveLength(3)
  })

  it.each(Object.entries(shapes))('replays a response that is %s', async (_name, made) => {
    const { post, calls } = await serve(async () => made)
    const key = randomUUID()
    const first = await post(key)
    const second = await post(key)
    expect(second.status).toBe(made.status)
    expect(first.status).toBe(made.status)
    expect(second.bytes.equals(first.bytes)).toBe(true)
    for (const name of Object.keys(made.headers)) {
      expect(second.headers.get(name)).toBe(first.headers.get(name))
    }
    expect([replayed(first), replayed(second)]).toEqual([null, 'true'])
    expect(calls).toEqual(['/orders {"item":1}'])
  })

  it.each([
    ['of 10 MB', { ...text(200, ''), body: megabytes(10) }],
    ['of 2 MB in chunks', { ...text(200, ''), body: [megabytes(1), megabytes(1)] }],
    [
      'an event stream',
      { ...text(200, 'data: 1\n\n'), headers: { 'content-type': 'text/event-stream' } },
    ],
  ])('sends a response that is %s, and then reports that it was not kept', async (_name, made) => {
    const { post, calls } = await serve(async () => made)
    const key = randomUUID()
    const first = await post(key)
    const parts = made.body instanceof Uint8Array ? [made.body] : made.body
    expect(first.bytes.equals(Buffer.concat(parts))).toBe(true)
    const second = await post(key)
    expect(second.status).toBe(409)
    expect(JSON.parse(second.bytes.toString())).toMatchObject({
      code: 'response-not-kept',
      'original-status': 200,
    })
    expect(calls).toHaveLength(1)
  })

  it('executes a key once for many requests at a time', async () => {
    let count = 0
    const { post, calls } = await serve(async () => {
      count += 1
      await new Promise((resolve) => setTimeout(resolve, 20))
      return text(200, `run ${count}`)
    })
    const key = randomUUID()
    const responses = await Promise.all(Array.from({ length: 30 }, () => post(key)))
    expect(new Set(responses.map(({ bytes }) => bytes.toString()))).toEqual(new Set(['run 1']))
    expect(calls).toHaveLength(1)
  })

  it('refuses the key of another request with 422', async () => {
    const { post, calls } = await serve(async () => text(200, 'ok'))
    const key = randomUUID()
    await post(key)
    for (const other of [{ body: 'other' }, { path: '/other' }, { method: 'PATCH' }]) {
      const { status, headers, bytes } = await post(key, other)
      expect(status).toBe(422)
      expect(headers.get('content-type')).toMatch(/^application\/problem\+json/)
      expect(JSON.parse(bytes.toString())).toMatchObject({ code: 'key-reused', status: 422 })
    }
    expect(calls).toHaveLength(1)
  })

  it('reads a body that arrives in chunks, and hands it on whole', async () => {
    const { post, calls } = await serve(async () => text(200, 'ok'))
    const key = randomUUID()
    const inChunks = () => new Blob(['one,', 'two,', 'three'.repeat(20_000)]).stream()
    const first = await post(key, { body: inChunks() })
    const second = await post(key, { body: inChunks() })
    expect([first.status, replayed(second)]).toEqual([200, 'true'])
    expect((await post(key, { body: new Blob(['one,', 'two']).stream() })).status).toBe(422)
    expect(calls).toEqual([`/orders one,two,${'three'.repeat(20_000)}`])
  })

  it('never replays the response of another sender', async () => {
    let count = 0
    const { post } = await serve(async () => text(200, `secret ${++count}`))
    const key = randomUUID()
    await post(key, { user: 'ada' })
    const stolen = await post(key, { user: 'eve' })
    expect([stolen.bytes.toString(), replayed(stolen)]).toEqual(['secret 2', null])
    const unknown = await post(key, { user: '' })
    expect(unknown.status).toBe(401)
  })

  it.each([
    ['of 10 KB', 'k'.repeat(10_240)],
    ['of 256 characters', 'k'.repeat(256)],
    ['in one quote', '"abc'],
    ['with a quote inside', 'a"b'],
    ['of two values', 'one, two'],
    ['of bytes that are not ASCII', 'caf\u00e9'],
    ['that is empty', ''],
    ['of a quoted text that is empty', '""'],
  ])('refuses a key %s with 400', async (_name, key) => {
    const { post, calls } = await serve(async () => text(200, 'ok'))
    const { status, bytes } = await post(key)
    expect([status, JSON.parse(bytes.toString()).code]).toEqual([400, 'key-invalid'])
    expect(calls).toEqual([])
  })

  it('takes a key in quotes for the same key without', async () => {
    const { post, calls } = await serve(async () => text(200, 'ok'))
    const key = randomUUID()
    expect(replayed(await post(`"${key}"`))).toBe(null)
    expect(replayed(await post(key))).toBe('true')
    expect(calls).toHaveLength(1)
  })

  it('leaves requests without a key and other methods alone, unless it is required', async () => {
    const free = await serve(async () => text(200, 'ok'))
    await free.post(undefined)
    await free.post(randomUUID(), { method: 'PUT' })
    expect(free.calls).toHaveLength(2)
    const strict = await serve(async () => text(200, 'ok'), { required: true })
    const { status, bytes } = await strict.post(undefined)
    expect([status, JSON.parse(bytes.toString()).code]).toEqual([400, 'key-missing'])
    expect(strict.calls).toEqual([])
  })

  it.each([429, 503])('executes a request again after %s', async (status) => {
    const statuses = [status, 200]
    const { post } = await serve(async () => text(statuses.shift() ?? 500, 'ok'))
    const key = randomUUID()
    expect((await post(key)).status).toBe(status)
    const second = await post(key)
    expect([second.status, replayed(second)]).toEqual([200, null])
    expect(replayed(await post(key))).toBe('true')
  })

  it('refuses a body that is too large for a fingerprint with 413', async () => {
    const { post, calls } = await serve(async () => text(200, 'ok'), { requestBytesMax: 1_000 })
    const { status } = await post(randomUUID(), { body: 'x'.repeat(1_001) })
    // A framework that has parsed the body already has applied its own bound.
    if (calls.length === 0) expect(status).toBe(413)
    else expect(status).toBe(200)
  })

  it('gives 409 with Retry-After to a request that has waited for too long', async () => {
    let finish: (made: Made) => void = () => undefined
    const made = new Promise<Made>((resolve) => {
      finish = resolve
    })
    const { post, calls } = await serve(() => made, { wait: '20ms' })
    const key = randomUUID()
    const first = post(key)
    await until('the handler runs', async () => calls.length === 1)
    const second = await post(key)
    expect([second.status, second.headers.get('retry-after')]).toEqual([409, '1'])
    finish(text(200, 'done'))
    expect((await first).bytes.toString()).toBe('done')
    expect((await post(key)).bytes.toString()).toBe('done')
  })

  it('keeps the response to a client that has disconnected', async () => {
    const events: IdempotencyEvent['type'][] = []
    let finish: (made: Made) => void = () => undefined
    const made = new Promise<Made>((resolve) => {
      finish = resolve
    })
    const { post, calls } = await serve(() => made, {
      store: memoryIdempotencyStore(),
      observer: ({ type }) => events.push(type),
    })
    const key = randomUUID()
    const abort = new AbortController()
    const first = post(key, { signal: abort.signal }).catch(() => 'aborted')
    await until('the handler runs', async () => calls.length === 1)
    abort.abort()
    expect(await first).toBe('aborted')
    finish(text(200, 'done'))
    await until('the response is kept', async () => events.includes('kept'))
    expect((await post(key)).bytes.toString()).toBe('done')
    expect(calls).toHaveLength(1)
  })
})

it('sends a response of node:http with trailers, and does not keep it', async () => {
  const useKey = keysOfNode({ scope: () => 'ada' })
  const server = createServer(async (request, response) => {
    if (!(await useKey(request, response))) return
    response.writeHead(200, { trailer: 'x-sum' })
    response.write('body')
    response.addTrailers({ 'x-sum': '1' })
    response.end()
  })
  onTestFinished(() => void server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const post = async () => {
    const headers = { 'idempotency-key': 'one' }
    const sent = sendRequest({ port, host: '127.0.0.1', method: 'POST', headers, agent: false })
    const [response] = (await once(sent.end(), 'response')) as [IncomingMessage]
    let body = ''
    for await (const chunk of response.setEncoding('utf8')) body += chunk
    return { status: response.statusCode, body, sum: response.trailers['x-sum'] }
  }
  expect(await post()).toEqual({ status: 200, body: 'body', sum: '1' })
  const again = await post()
  expect([again.status, JSON.parse(again.body).code]).toEqual([409, 'response-not-kept'])
})
