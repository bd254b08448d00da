/** Idempotency keys in the gateway: what is replayed, what the limits count, and outages. */

import { randomBytes, randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import { Redis } from 'ioredis'
import {
  type IdempotencyEvent,
  memoryIdempotencyStore,
  redisIdempotencyStore,
} from 'tidegate/idempotency'
import { describe, expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../../support/servers/redis.ts'
import { until } from '../../support/servers/until.ts'
import { AnswerClient, head } from './answer-client.ts'
import { startTestGateway, type TestGatewayOptions } from './test-gateway.ts'
import { startUpstream } from './test-upstream.ts'

type Answer = NonNullable<Parameters<typeof startUpstream>[0]>

const limitOfTwo = [{ name: 'two', key: 'everyone', limit: 2, per: '1h' }]

async function serve(answer: Answer, section: object = {}, options: TestGatewayOptions = {}) {
  const upstream = await startUpstream(answer)
  const { limits = [], auth = {}, ...idempotency } = section as Record<string, unknown>
  const policy = {
    upstreams: { api: { targets: [upstream.url] } },
    ...{ limits, auth, idempotency },
  }
  const gateway = await startTestGateway(policy, options)
  const post = async (key: string | undefined, more: Partial<Sent> = {}) => {
    const { path = '/orders', body = '{"item":1}', user = 'ada', signal } = more
    const sent: Record<string, string> = { 'x-api-key': user, 'content-type': 'text/plain' }
    if (key !== undefined) sent['idempotency-key'] = key
    const init = { method: 'POST', headers: sent, body, redirect: 'manual' } as const
    const response = await fetch(gateway.url + path, { ...init, ...(signal && { signal }) })
    const { status, headers } = response
    return { status, headers, bytes: Buffer.from(await response.arrayBuffer()) }
  }
  return { gateway, upstream, post }
}

interface Sent {
  readonly path: string
  readonly body: string
  readonly user: string
  readonly signal: AbortSignal
}

const replayed = ({ headers }: { headers: Headers }) => headers.get('idempotent-replayed')

/** Answers with the number of the run. */
function counting(): Answer {
  let count = 0
  return (_request, response) => void response.end(`run ${++count}`)
}

const shapes: Readonly<Record<string, Answer>> = {
  'of a known length': (_, response) => void response.end('whole'),
  'in chunks': (_, response) => {
    response.write('one,')
    setImmediate(() => response.end('two'))
  },
  empty: (_, response) => void response.end(),
  'without content': (_, response) => void response.writeHead(204).end(),
  'not modified': (_, response) => void response.writeHead(304, { etag: '"1"' }).end(),
  'a redirect': (_, response) => void response.writeHead(303, { location: '/orders/7' }).end(),
  'of bytes': (_, response) => void response.end(Buffer.from([0, 255, 128, 10, 13])),
  compressed: (_, response) => {
    const fields = { 'content-type': 'text/plain', 'content-encoding': 'gzip' }
    response.writeHead(200, fields).end(gzipSync('compressed by the upstream'))
  },
  'an error': (_, response) => void response.writeHead(500).end('broken'),
}

describe('a response', () => {
  test.each(Object.entries(shapes))('%s is replayed', async (_name, answer) => {
    const { post, upstream } = await serve(answer)
    const key = randomUUID()
    const [first, second] = [await post(key), await post(key)]
    expect(second.status).toBe(first.status)
    expect(second.bytes.equals(first.bytes)).toBe(true)
    for (const name of ['location', 'etag', 'content-type', 'content-encoding']) {
      expect(second.headers.get(name)).toBe(first.headers.get(name))
    }
    expect([replayed(first), replayed(second)]).toEqual([null, 'true'])
    expect(upstream.seen).toHaveLength(1)
    expect(upstream.seen[0]?.headers['idempotency-key']).toBe(key)
  })

  const large = randomBytes(10 * 1_024 ** 2)
  const notKept: Readonly<Record<string, Answer>> = {
    'of 10 MB': (_, response) => void response.end(large),
    'with trailers': (_, response) => {
      response.writeHead(200, { trailer: 'x-sum' })
      response.write('body')
      response.addTrailers({ 'x-sum': '1' })
      response.end()
    },
    'of events': (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end('data: 1\n\n')
    },
  }

  test.each(Object.entries(notKept))('%s is sent, and reported as not kept', async (_, answer) => {
    const { post, upstream } = await serve(answer)
    const key = randomUUID()
    const first = await post(key)
    expect(first.status).toBe(200)
    if (first.bytes.length > 1_000) expect(first.bytes.equals(large)).toBe(true)
    const second = await post(key)
    expect(JSON.parse(second.bytes.toString())).toMatchObject({
      ...{ status: 409, code: 'response-not-kept', 'original-status': 200 },
    })
    expect(upstream.seen).toHaveLength(1)
  })

  test.each([
    ['stalls', 504, () => undefined],
    ['breaks off', 502, (response) => void response.destroy()],
  ] satisfies [string, number, (response: ServerResponse) => void][])(
    'whose body %s is refused with %i, and its key used again',
    async (_name, status, end) => {
      let runs = 0
      const upstream = await startUpstream((_request, response) => {
        if (++runs > 1) return void response.end(`run ${runs}`)
        response.write('half', () => end(response))
      })
      const gateway = await startTestGateway({
        upstreams: { api: { targets: [upstream.url], timeouts: { idle: '2s' } } },
        limits: [],
        idempotency: {},
      })
      const headers = { 'x-api-key': 'ada', 'idempotency-key': randomUUID() }
      const post = () => fetch(gateway.url, { method: 'POST', headers, body: 'one' })
      expect((await post()).status).toBe(status)
      const again = await post()
      expect([again.status, await again.text()]).toEqual([200, 'run 2'])
    },
  )

  test('is kept for a client that has disconnected', async () => {
    const events: string[] = []
    const held: (() => void)[] = []
    const answer: Answer = (_, response) => held.push(() => response.end('done'))
    const onIdempotency = ({ type }: IdempotencyEvent) => events.push(type)
    const { post, upstream } = await serve(answer, {}, { onIdempotency })
    const abort = new AbortController()
    const key = randomUUID()
    const first = post(key, { signal: abort.signal }).catch(() => 'aborted')
    await until('the upstream has it', async () => upstream.seen.length === 1)
    abort.abort()
    expect(await first).toBe('aborted')
    for (const end of held) end()
    await until('the response is kept', async () => events.includes('kept'))
    expect((await post(key)).bytes.toString()).toBe('done')
    expect(upstream.seen).toHaveLength(1)
  })
})

describe('a key', () => {
  test('of a hundred requests at a time reaches the upstream once', async () => {
    const { post, upstream } = await serve(counting())
    const key = randomUUID()
    const responses = await Promise.all(Array.from({ length: 100 }, () => post(key)))
    expect(new Set(responses.map(({ bytes }) => bytes.toString()))).toEqual(new Set(['run 1']))
    expect(upstream.seen).toHaveLength(1)
  })

  test('of another sender is another key', async () => {
    const { post, upstream } = await serve(counting())
    const key = randomUUID()
    await post(key, { user: 'ada' })
    const stolen = await post(key, { user: 'eve' })
    expect([stolen.bytes.toString(), replayed(stolen)]).toEqual(['run 2', null])
    expect((await post(key, { user: '' })).status).toBe(401)
    expect(upstream.seen).toHaveLength(2)
  })

  test('of another request is refused', async () => {
    const { post } = await serve(counting())
    const key = randomUUID()
    await post(key)
    expect((await post(key, { body: 'other' })).status).toBe(422)
    expect((await post(key, { path: '/orders?a=1' })).status).toBe(422)
  })

  test.each([
    ['of 10 KB', 'k'.repeat(10_240)],
    ['in one quote', '"abc'],
    ['of two values', 'one, two'],
    ['with a tab inside', 'a\tb'],
    ['of bytes that are not ASCII', 'caf\u00e9'],
  ])('%s is refused with 400', async (_name, key) => {
    const { post, upstream } = await serve(counting())
    expect((await post(key)).status).toBe(400)
    expect(upstream.seen).toEqual([])
  })

  test.each(['\u0001', '\u0000', '\u007f', '\r'])('with %j is refused with 400', async (text) => {
    const { gateway, upstream } = await serve(counting())
    const client = new AnswerClient(gateway.port)
    const fields = ['X-Api-Key: ada', `Idempotency-Key: a${text}b`, 'Content-Length: 1']
    expect((await client.ask(head('POST /orders', ...fields), 'x')).status).toBe(400)
    expect(upstream.seen).toEqual([])
  })

  test('is needed only where the policy says so', async () => {
    const { post } = await serve(counting(), { required: true, paths: ['/payments/**'] })
    expect((await post(undefined, { path: '/orders' })).status).toBe(200)
    expect((await post(undefined, { path: '/payments/1' })).status).toBe(400)
  })

  test('is free again if the upstream cannot be reached', async () => {
    const { post, upstream } = await serve(counting())
    const key = randomUUID()
    await new Promise((resolve) => upstream.server.close(resolve))
    expect((await post(key)).status).toBe(502)
    expect(replayed(await post(key))).toBe(null)
  })
})

describe('the limits', () => {
  test('count the first request of a key by default, and never refuse its replays', async () => {
    const { post } = await serve(counting(), { limits: limitOfTwo })
    const [one, two, three] = [randomUUID(), randomUUID(), randomUUID()]
    const statuses: number[] = []
    for (const key of [one, one, one, two, three, one, two]) {
      statuses.push((await post(key)).status)
    }
    expect(statuses).toEqual([200, 200, 200, 200, 429, 200, 200])
  })

  test('that deny a request leave its key unused', async () => {
    const { post, gateway } = await serve(counting(), { limits: limitOfTwo })
    const key = randomUUID()
    for (const used of [randomUUID(), randomUUID()]) await post(used)
    expect((await post(key)).status).toBe(429)
    expect((await post(key, { body: 'other' })).status).toBe(429)
    expect(gateway.loggedText()).not.toContain(key)
  })

  test('count every request with `every`', async () => {
    const { post } = await serve(counting(), { limits: limitOfTwo, count: 'every' })
    const key = randomUUID()
    const statuses = [await post(key), await post(key), await post(key)].map((one) => one.status)
    expect(statuses).toEqual([200, 200, 429])
  })

  test.each([
    ['first', [503, 503, 429]],
    ['unique', [503, 503, 200]],
  ])('count a request that is executed again with `%s`', async (count, expected) => {
    const statuses = [503, 503, 200]
    const answer: Answer = (_, response) => void response.writeHead(statuses.shift() ?? 500).end()
    const { post } = await serve(answer, { limits: limitOfTwo, count })
    const key = randomUUID()
    const seen = [await post(key), await post(key), await post(key)].map((one) => one.status)
    expect(seen).toEqual(expected)
  })

  test('are spared by a flood of replays, which meets a guard of its own', async () => {
    const { post, upstream } = await serve(counting(), { replaysPerSecondMax: 1 })
    const key = randomUUID()
    const statuses: number[] = []
    // 10 at once and one a second. A machine that stalls lets a few more pass.
    for (let at = 0; at < 40; at++) statuses.push((await post(key)).status)
    expect(statuses.slice(0, 11)).toEqual(Array(11).fill(200))
    expect(statuses).toContain(429)
    expect((await post(key, { user: 'bob' })).status).toBe(200)
    expect(upstream.seen).toHaveLength(2)
  })
})

describe('in Redis', () => {
  async function onRedis(section: object = {}) {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const client = new Redis({ host: redis.host, port: redis.port, maxRetriesPerRequest: 0 })
    client.on('error', () => undefined)
    onTestFinished(() => client.disconnect())
    const keyStore = redisIdempotencyStore(client, { deadlineMs: 5_000, connectMs: 5_000 })
    return { redis, ...(await serve(counting(), section, { keyStore })) }
  }

  test('a new key takes two commands, and a replay one', async () => {
    const { redis, post } = await onRedis()
    const calls = async () => {
      const stats = String(await redis.command('INFO', 'commandstats'))
      const counts = stats.matchAll(/cmdstat_(?:evalsha|eval):calls=(\d+)/g)
      return [...counts].reduce((sum, [, count]) => sum + Number(count), 0)
    }
    await post(randomUUID())
    const key = randomUUID()
    const before = await calls()
    await post(key)
    const between = await calls()
    await post(key)
    expect([between - before, (await calls()) - between]).toEqual([2, 1])
  })

  test('kept responses are encrypted with a key, and no key of a client is readable', async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const client = new Redis({ host: redis.host, port: redis.port })
    onTestFinished(() => client.disconnect())
    const keyStore = redisIdempotencyStore(client, { deadlineMs: 5_000 })
    const environment = { KEPT: randomBytes(32).toString('base64') }
    const section = { encryptionKey: { env: 'KEPT' } }
    const { post } = await serve(counting(), section, { keyStore, environment })
    const key = randomUUID()
    await post(key)
    const [record = ''] = await client.keys('*')
    const text = await client.get(record)
    expect(`${record} ${text}`).not.toContain(key)
    expect(text).not.toContain('run 1')
    expect((await post(key)).bytes.toString()).toBe('run 1')
  })

  test.each([
    ['refuse', 503],
    ['execute', 200],
  ])('an outage means %s', async (onStoreError, status) => {
    const { redis, post } = await onRedis({ onStoreError })
    const key = randomUUID()
    expect((await post(key)).status).toBe(200)
    await redis.stop()
    const response = await post(key)
    expect(response.status).toBe(status)
    if (status === 503) expect(response.headers.get('retry-after')).toBe('1')
  })
})

describe('a body with a key', () => {
  const faults = {
    'that is short and stalls': [408, 'Content-Length: 10', 'half'],
    'that is long and stalls': [408, 'Content-Length: 200000', 'x'.repeat(100_000)],
    'in chunks that stall': [408, 'Transfer-Encoding: chunked', '4\r\nhalf\r\n'],
    'in chunks that are not valid': [400, 'Transfer-Encoding: chunked', '4\r\nhalf\r\nx\r\n'],
    'that is larger than allowed': [413, 'Content-Length: 400000', 'x'],
    'in more chunks than allowed': [
      413,
      'Transfer-Encoding: chunked',
      `493e0\r\n${'x'.repeat(300_000)}\r\n493e0\r\n${'x'.repeat(10_000)}`,
    ],
  } as const

  test('is refused as without one if it stalls, is not valid or is too large', async () => {
    const upstream = await startUpstream(counting())
    const gateway = await startTestGateway({
      gateway: { timeouts: { request: '1s' }, bodyBytesMax: '300kb' },
      upstreams: { api: { targets: [upstream.url] } },
      ...{ limits: [], idempotency: { otherwise: 'ip' } },
    })
    const ask = async (request: string, body: string) => {
      const answer = await new AnswerClient(gateway.port).ask(request, body)
      const { request_id: _, ...problem } = JSON.parse(answer.body)
      return { problem, connection: answer.headers.connection }
    }
    const asked = Object.entries(faults).map(async ([name, [status, framing, body]]) => {
      const keyed = ask(head('POST /', framing, `Idempotency-Key: ${randomUUID()}`), body)
      const without = await ask(head('POST /', framing), body)
      expect(await keyed, name).toEqual(without)
      expect(without.problem.status, name).toBe(status)
    })
    await Promise.all(asked)
  })
})

test('a policy with keys can be applied and removed while the gateway runs', async () => {
  const { gateway, post, upstream } = await serve(
    counting(),
    {},
    {
      keyStore: memoryIdempotencyStore(),
    },
  )
  const key = randomUUID()
  await post(key)
  const upstreams = { api: { targets: [upstream.url] } }
  gateway.change({ upstreams, limits: [] })
  expect((await post(key)).bytes.toString()).toBe('run 2')
  gateway.change({ upstreams, limits: [], idempotency: {} })
  expect((await post(key)).bytes.toString()).toBe('run 1')
})
