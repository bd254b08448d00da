/** TLS, HTTP/2 and client certificates. */

import { readFileSync } from 'node:fs'
import { type ClientHttp2Session, connect, constants } from 'node:http2'
import { Agent, request } from 'undici'
import { describe, expect, onTestFinished, test } from 'vitest'
import { frameTypes, uint32Frame } from '../../../packages/server/src/rls/transport/http2/frames.ts'
import { FrameClient, requestFields } from '../../security/frame-client.ts'
import { until } from '../../support/servers/until.ts'
import { type Authority, makeAuthority } from './authority.ts'
import { startTestGateway } from './test-gateway.ts'
import { startUpstream } from './test-upstream.ts'
import { differs } from './transport-differences.ts'

type Answer = Parameters<typeof startUpstream>[0]

async function start(
  others: { gateway?: object; limits?: object[]; answer?: Answer; tls?: object } = {},
) {
  const { answer, tls, ...sections } = others
  const authority = makeAuthority()
  const { certFile, keyFile } = authority.issue('localhost', 'DNS:localhost,IP:127.0.0.1')
  const upstream = await startUpstream(answer)
  const gateway = await startTestGateway({
    upstreams: { api: { targets: [upstream.url] } },
    ...sections,
    gateway: { ...sections.gateway, tls: { cert: certFile, key: keyFile, ...tls } },
  })
  return { authority, upstream, gateway }
}

function agentFor(authority: Authority, by?: { certFile: string; keyFile: string }): Agent {
  const own = by && { cert: readFileSync(by.certFile), key: readFileSync(by.keyFile) }
  const agent = new Agent({
    allowH2: false,
    connect: { ca: readFileSync(authority.caFile), ...own },
  })
  onTestFinished(() => agent.destroy())
  return agent
}

function sessionTo(url: string, authority: Authority): ClientHttp2Session {
  const session = connect(url, { ca: readFileSync(authority.caFile) })
  session.on('error', () => undefined)
  onTestFinished(() => session.destroy())
  return session
}

interface Http2Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly trailers: Readonly<Record<string, unknown>>
  readonly body: string
}

function ask2(session: ClientHttp2Session, headers: object, body?: string): Promise<Http2Answer> {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ':path': '/', ...headers })
    let found: Record<string, unknown> = {}
    let trailers: Record<string, unknown> = {}
    let text = ''
    stream.setEncoding('utf8')
    stream.on('response', (fields) => {
      found = fields
    })
    stream.on('trailers', (fields) => {
      trailers = fields
    })
    stream.on('data', (chunk) => {
      text += chunk
    })
    stream.on('error', reject)
    stream.on('close', () =>
      resolve({ status: Number(found[':status']), headers: found, trailers, body: text }),
    )
    stream.end(body)
  })
}

describe('TLS', () => {
  test('is terminated, and the upstream gets its scheme', async () => {
    const { authority, upstream, gateway } = await start()
    const dispatcher = agentFor(authority)
    const { statusCode, body } = await request(gateway.url, { dispatcher })
    expect([statusCode, await body.text()]).toEqual([200, 'from the upstream'])
    expect(upstream.seen[0]?.headers['x-forwarded-proto']).toBe('https')
  })

  test('may be without HTTP/2', async () => {
    const { authority, gateway } = await start({ gateway: { http2: false } })
    const dispatcher = agentFor(authority)
    const { statusCode, body } = await request(gateway.url, { dispatcher })
    await body.dump()
    expect(statusCode).toBe(200)
  })

  test('takes another certificate without a restart', async () => {
    const { authority, upstream, gateway } = await start()
    const fresh = makeAuthority()
    const { certFile, keyFile } = fresh.issue('localhost', 'DNS:localhost,IP:127.0.0.1')
    gateway.change({
      upstreams: { api: { targets: [upstream.url] } },
      gateway: { tls: { cert: certFile, key: keyFile } },
    })
    await expect(request(gateway.url, { dispatcher: agentFor(authority) })).rejects.toThrow()
    const { statusCode, body } = await request(gateway.url, { dispatcher: agentFor(fresh) })
    await body.dump()
    expect(statusCode).toBe(200)
  })
})

describe('HTTP/2', () => {
  test('is forwarded as any other request, with bodies both ways', async () => {
    const { authority, upstream, gateway } = await start({
      answer: (_request, response, body) => void response.end(body.toUpperCase()),
    })
    const session = sessionTo(gateway.url, authority)
    const answer = await ask2(session, { ':method': 'POST', 'x-mine': '1', te: 'trailers' }, 'abc')
    expect(answer).toMatchObject({ status: 200, body: 'ABC' })
    expect(upstream.seen[0]).toMatchObject({
      method: 'POST',
      url: '/',
      body: 'abc',
      headers: {
        'x-mine': '1',
        host: `127.0.0.1:${gateway.port}`,
        te: 'trailers',
        connection: differs('te') ? 'keep-alive' : 'keep-alive, te',
      },
    })
    expect(Object.keys(upstream.seen[0]?.headers ?? {}).join()).not.toContain(':')
  })

  test('gets cookies apart, trailers, and rate limits', async () => {
    const { authority, gateway } = await start({
      answer(_request, response) {
        response.writeHead(200, { 'set-cookie': ['a=1', 'b=2'], trailer: 'x-sum' })
        response.write('part')
        response.addTrailers({ 'x-sum': '42' })
        response.end()
      },
      limits: [{ name: 'one', key: 'ip', limit: 1, per: '1h', algorithm: 'fixedWindow' }],
    })
    const session = sessionTo(gateway.url, authority)
    const first = await ask2(session, {})
    expect(first).toMatchObject({ status: 200, body: 'part', trailers: { 'x-sum': '42' } })
    expect(first.headers).toMatchObject({
      'set-cookie': ['a=1', 'b=2'],
      'ratelimit-policy': '"one";q=1;w=3600',
    })
    const second = await ask2(session, { ':method': 'POST' }, 'x'.repeat(100_000))
    expect(second).toMatchObject({ status: 429 })
    expect(JSON.parse(second.body)).toMatchObject({ status: 429 })
    expect((await ask2(session, { ':path': '/health' })).status).toBe(200)
  })

  test('serves many streams of one connection, each against the limit', async () => {
    const limits = [{ name: 'ten', key: 'ip', limit: 10, per: '1h', algorithm: 'fixedWindow' }]
    const { authority, gateway } = await start({ limits })
    const session = sessionTo(gateway.url, authority)
    const answers = await Promise.all(Array.from({ length: 40 }, () => ask2(session, {})))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(10)
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(30)
  })

  test.each([
    ['two different hosts', { ':authority': 'a.example', host: 'b.example' }],
    ['a path with an encoded slash', { ':path': '/a%2fb' }],
    ['a method that is not served', { ':method': 'TRACE' }],
  ])('is refused with %s', async (_name, headers) => {
    const { authority, upstream, gateway } = await start()
    const { status } = await ask2(sessionTo(gateway.url, authority), headers)
    expect([400, 405]).toContain(status)
    expect(upstream.seen).toHaveLength(0)
  })

  test('gets GOAWAY when the gateway stops', async () => {
    const { authority, upstream, gateway } = await start({
      gateway: { timeouts: { drain: '1m' } },
      answer: (_request, response) => void setTimeout(() => response.end('late'), 200),
    })
    const session = sessionTo(gateway.url, authority)
    let goaway: number | undefined
    session.on('goaway', (code) => {
      goaway = code
    })
    const asked = ask2(session, {})
    await until('it is under way', () => upstream.seen.length === 1)
    const closed = gateway.close()
    expect(await asked).toMatchObject({ status: 200, body: 'late' })
    await closed
    await until('it is told', () => goaway !== undefined)
    expect(goaway).toBe(constants.NGHTTP2_NO_ERROR)
  })

  test('cancels the request at the upstream when a stream is reset', async () => {
    let isClosed = false
    const { authority, gateway } = await start({
      answer(_request, response) {
        response.on('close', () => {
          isClosed = true
        })
        response.write('begin')
      },
    })
    const session = sessionTo(gateway.url, authority)
    const stream = session.request({ ':path': '/' })
    stream.on('error', () => undefined)
    stream.on('data', () => stream.close(constants.NGHTTP2_CANCEL))
    await until('the upstream request is closed', () => isClosed)
    expect((await ask2(session, { ':path': '/health' })).status).toBe(200)
  })
})

describe('a client certificate', () => {
  const limits = [
    { name: 'per-client', key: 'certificate', otherwise: 'deny', limit: 1, per: '1h' },
  ]

  test('is needed if the policy requires it', async () => {
    const clients = makeAuthority()
    const tls = { clientCa: clients.caFile, clientCertificate: 'require' }
    const { authority, upstream, gateway } = await start({ tls })
    const known = clients.issue('service-a', 'DNS:a.internal')
    const stranger = makeAuthority().issue('service-a', 'DNS:a.internal')
    await expect(request(gateway.url, { dispatcher: agentFor(authority) })).rejects.toThrow()
    await expect(
      request(gateway.url, { dispatcher: agentFor(authority, stranger) }),
    ).rejects.toThrow()
    const { statusCode, body } = await request(gateway.url, {
      dispatcher: agentFor(authority, known),
    })
    await body.dump()
    expect(statusCode).toBe(200)
    expect(upstream.seen.map(({ headers }) => headers['x-tidegate-certificate'])).toEqual([
      'service-a',
    ])
  })

  test('is an identity with a limit of its own', async () => {
    const clients = makeAuthority()
    const tls = { clientCa: clients.caFile, clientCertificate: 'request' }
    const { authority, gateway } = await start({ tls, limits })
    const [a, b] = ['a', 'b'].map((name) => clients.issue(`service-${name}`, `DNS:${name}`))
    const stranger = makeAuthority().issue('service-c', 'DNS:c')
    const statuses: number[] = []
    for (const by of [a, b, a, undefined, stranger]) {
      const dispatcher = agentFor(authority, by)
      const { statusCode, body } = await request(gateway.url, { dispatcher })
      await body.dump()
      statuses.push(statusCode)
    }
    expect(statuses).toEqual([200, 200, 429, 401, 401])
  })
})

describe('HTTP/2 clients', () => {
  test.each([0, 1, 2, 3, 4, 5, 6, 7])(
    'that have gone %i turns before do not keep it from stopping',
    async (turns) => {
      const { gateway, authority } = await start()
      const sessions = Array.from({ length: 10 }, () => sessionTo(gateway.url, authority))
      await Promise.all(sessions.map((session) => ask2(session, {})))
      for (const session of sessions) session.destroy()
      for (let turn = 0; turn < turns; turn += 1) await new Promise(setImmediate)
      await expect(gateway.close()).resolves.toBeUndefined()
    },
  )

  /** After this wait of the upstream, all buffers on the way are full. */
  const FULL_AFTER_MS = 500

  /** A client of an endless response. */
  async function startEndless(timeouts: object, windowBytes?: number) {
    const piece = Buffer.alloc(64 * 1_024)
    let isClosed = false
    let waitsSinceMs = Number.POSITIVE_INFINITY
    const { gateway } = await start({
      gateway: { timeouts },
      answer: (_request, response) => {
        const sendOn = () => {
          waitsSinceMs = performance.now()
          if (!isClosed && response.write(piece)) setImmediate(sendOn)
        }
        response.on('drain', sendOn).on('close', () => {
          isClosed = true
        })
        sendOn()
      },
    })
    const client = await FrameClient.connect(gateway.port, windowBytes)
    client.send(uint32Frame(frameTypes.windowUpdate, 0, 2 ** 30))
    client.request(requestFields('/'))
    const isFull = () => performance.now() - waitsSinceMs > FULL_AFTER_MS
    return {
      client,
      full: () => until('the upstream waits', isFull),
      closed: () => until('the upstream request is closed', () => isClosed),
    }
  }

  test('that stop reading their connection release their upstream connections', async () => {
    const { client, closed } = await startEndless({ send: '500ms' }, 2 ** 30)
    client.socket.pause()
    await closed()
  })

  const patient = { send: '10m' }

  test.each([
    ['end their side', (client: FrameClient) => client.socket.end()],
    ['close their connection', (client: FrameClient) => client.socket.destroy()],
  ])('that %s while their window is closed are noticed at once', async (_name, leave) => {
    const { client, full, closed } = await startEndless(patient)
    await full()
    leave(client)
    await closed()
  })

  test('that close a connection which they do not read are noticed soon', async () => {
    const { client, full, closed } = await startEndless(patient, 2 ** 30)
    client.socket.pause()
    await full()
    client.socket.destroy()
    await closed()
  })
})
