/** Connections of HTTP/2 clients: how long they count, and how they end. */

import { execFile, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { connect as connectTcp } from 'node:net'
import { connect } from 'node:tls'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  flags,
  frame,
  frameTypes,
  PREFACE,
  settingsFrame,
} from '../../../packages/server/src/rls/transport/http2/frames.ts'
import { block, FrameClient, makeTls, requestFields } from '../../security/frame-client.ts'
import { LOOPBACK } from '../../support/servers/ports.ts'
import { until } from '../../support/servers/until.ts'
import { startTestGateway } from './test-gateway.ts'
import { startUpstream } from './test-upstream.ts'

const run = promisify(execFile)

const CONNECTIONS = 60
const PER_IP_MAX = 5

/** Far below the drain time of 30 s that a connection would take if the gateway still had it. */
const STOP_MS_MAX = 10_000

type Answer = Parameters<typeof startUpstream>[0]

async function start(gateway: object = {}, answer?: Answer) {
  const upstream = await startUpstream(answer)
  const { tls } = makeTls()
  const policy = { gateway: { tls, ...gateway }, upstreams: { api: { targets: [upstream.url] } } }
  return { upstream, gateway: await startTestGateway(policy) }
}

async function ask(client: FrameClient, path: string): Promise<number> {
  const id = client.request(requestFields(path))
  await until('it is answered', () => client.isClosed || client.answer(id).isEnded)
  return client.answer(id).status
}

function curlHasHttp2(): boolean {
  try {
    return /^Features:.* HTTP2/m.test(execFileSync('curl', ['--version'], { encoding: 'utf8' }))
  } catch {
    return false
  }
}

describe('a connection that its client closes', () => {
  // node:http2 as a client sends GOAWAY first, and the server closes then by itself.
  test.each([
    ['with a closing alert', ({ socket }: FrameClient) => void socket.end()],
    ['without a closing alert', ({ socket }: FrameClient) => void socket.destroy()],
  ])('%s does not count any more', async (_name, leave) => {
    const timeouts = { drain: '30s' }
    const { gateway } = await start({ connectionsPerIpMax: PER_IP_MAX, timeouts })
    const statuses = new Set<number>()
    for (let count = 0; count < CONNECTIONS; count += 1) {
      const client = await FrameClient.connect(gateway.port)
      statuses.add(await ask(client, '/health'))
      leave(client)
      await until('it is closed', () => client.isClosed)
    }
    expect([...statuses]).toEqual([200])
    const startMs = performance.now()
    await gateway.close()
    expect(performance.now() - startMs).toBeLessThan(STOP_MS_MAX)
  })

  // A curl that was built without HTTP/2 shows nothing here.
  test.skipIf(!curlHasHttp2())('by curl does not count any more', async () => {
    const timeouts = { drain: '30s' }
    const { gateway } = await start({ connectionsPerIpMax: PER_IP_MAX, timeouts })
    const url = `https://${LOOPBACK}:${gateway.port}/health`
    const statuses = new Set<string>()
    for (let count = 0; count < CONNECTIONS; count += 1) {
      const options = ['-sk', '--http2', '-o', '/dev/null', '-w', '%{http_version} %{http_code}']
      statuses.add((await run('curl', [...options, url])).stdout)
    }
    expect([...statuses]).toEqual(['2 200'])
    const startMs = performance.now()
    await gateway.close()
    expect(performance.now() - startMs).toBeLessThan(STOP_MS_MAX)
  })
})

describe('a connection too many', () => {
  test('of one address has a line in the log, up to the bound of lines', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway({
      gateway: { tls: makeTls().tls, connectionsPerIpMax: 1 },
      upstreams: { api: { targets: [upstream.url] } },
      log: { linesPerSecondMax: 2, nodeId: 'node-7' },
    })
    await FrameClient.connect(gateway.port)
    // Until there were more than two in one second, which is told when the second is over.
    await until('lines are left out', async () => {
      await FrameClient.connect(gateway.port).catch(() => undefined)
      return gateway.loggedText().includes('log.left_out')
    })
    const lines = gateway.logged()
    expect(lines[0]).toMatchObject({
      level: 'warn',
      event: 'connection.refused',
      client_id: expect.stringMatching(/^hmac-sha256:[0-9a-f]{16}$/),
      reason: 'connectionsPerIpMax',
      node_id: 'node-7',
    })
    expect(gateway.loggedText()).not.toContain(LOOPBACK)
  })

  test('of all clients has a line in the log', async () => {
    const { gateway } = await start({ connectionsMax: 1 })
    await FrameClient.connect(gateway.port)
    await FrameClient.connect(gateway.port).catch(() => undefined)
    await until('it is logged', () => gateway.logged().length > 0)
    expect(gateway.logged()[0]).toMatchObject({
      event: 'connection.refused',
      reason: 'connectionsMax',
    })
  })
})

describe('a gateway that stops', () => {
  test('serves HTTP/2 while it is not ready, also on new connections', async () => {
    const { gateway } = await start({ timeouts: { unready: '3s', drain: '30s' } })
    const old = await FrameClient.connect(gateway.port)
    expect(await ask(old, '/ready')).toBe(200)
    const closed = gateway.close()
    const fresh = await FrameClient.connect(gateway.port)
    for (const client of [old, fresh]) {
      expect(await ask(client, '/ready')).toBe(503)
      expect(await ask(client, '/')).toBe(200)
      expect(client.goAway).toBeUndefined()
    }
    await closed
    await until('both were sent away', () => old.goAway === 0 && fresh.goAway === 0)
  })

  test('names the last stream that it serves, so that later ones can be retried', async () => {
    let end = () => {}
    const answer: Answer = (_request, response) => {
      end = () => void response.end('late')
    }
    const { upstream, gateway } = await start({ timeouts: { drain: '30s' } }, answer)
    const client = await FrameClient.connect(gateway.port)
    const served = client.request(requestFields('/served'))
    await until('it is under way', () => upstream.seen.length === 1)
    const closed = gateway.close()
    await until('GOAWAY is here', () => client.goAway !== undefined)
    expect(client.lastStream).toBe(served)
    client.request(requestFields('/ignored'))
    end()
    await until('it is answered', () => client.answer(served).isEnded)
    expect(client.answer(served)).toMatchObject({ status: 200, body: 'late' })
    client.socket.end()
    await closed
    expect(upstream.seen).toHaveLength(1)
  })
})

describe('a method over HTTP/2', () => {
  test.each([
    ['post', 400],
    ['Post', 400],
    ['FOO', 400],
    ['PRI', 400],
    ['A'.repeat(5_000), 400],
    ['TRACE', 405],
  ])('%s is answered with %i', async (method, status) => {
    const { upstream, gateway } = await start()
    const client = await FrameClient.connect(gateway.port)
    const id = client.request(requestFields('/login', [':method', method]))
    await until('it is answered', () => client.answer(id).isEnded)
    expect(client.answer(id).status).toBe(status)
    expect(upstream.seen).toHaveLength(0)
  })

  test('that is CONNECT is answered with 405, and its lines in the log are bounded', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway({
      gateway: { tls: makeTls().tls },
      upstreams: { api: { targets: [upstream.url] } },
      log: { linesPerSecondMax: 2 },
    })
    const client = await FrameClient.connect(gateway.port)
    const connect = () =>
      client.request([
        [':method', 'CONNECT'],
        [':authority', 'a.example:1'],
      ])
    const ids = Array.from({ length: 50 }, connect)
    await until('all are answered', () => ids.every((id) => client.answer(id).isEnded))
    expect(new Set(ids.map((id) => client.answer(id).status))).toEqual(new Set([405]))
    const refused = gateway.logged().filter(({ event }) => event === 'gateway.refused')
    expect(refused.length).toBeLessThan(25)
    expect(gateway.loggedText()).not.toContain('gateway.error')
  })

  test('cannot pass a limit in other letters', async () => {
    const upstream = await startUpstream()
    const match = { path: '/login', methods: ['POST'] }
    const gateway = await startTestGateway({
      gateway: { tls: makeTls().tls },
      upstreams: { api: { targets: [upstream.url] } },
      limits: [{ name: 'one', match, key: 'ip', limit: 1, per: '1h', algorithm: 'fixedWindow' }],
    })
    const client = await FrameClient.connect(gateway.port)
    const statuses: number[] = []
    for (const method of ['POST', 'POST', 'post', 'pOST']) {
      const id = client.request(requestFields('/login', [':method', method]))
      await until('it is answered', () => client.answer(id).isEnded)
      statuses.push(client.answer(id).status)
    }
    expect(statuses).toEqual([200, 429, 400, 400])
    expect(upstream.seen).toHaveLength(1)
  })
})

describe('a client that holds a connection', () => {
  const halfHead = (client: FrameClient) => {
    const head = block(requestFields('/'))
    client.send(frame(frameTypes.headers, flags.endStream, client.newStream(), head))
  }
  const partOfFrame = (client: FrameClient) => {
    const head = block(requestFields('/'))
    const all = flags.endStream | flags.endHeaders
    client.send(frame(frameTypes.headers, all, client.newStream(), head).subarray(0, 30))
  }
  const nothing = () => undefined

  /** Longer than a machine stalls between a connection and its request. */
  const HEADERS_MS = 2_500

  test.each([
    ['with half a header block', halfHead],
    ['with a part of a header frame', partOfFrame],
    ['with its preface only', nothing],
  ])('%s is disconnected after timeouts.headers', async (_name, hold) => {
    const { gateway } = await start({ timeouts: { headers: '400ms', drain: '30s' } })
    const client = await FrameClient.connect(gateway.port)
    hold(client)
    await until('it is closed', () => client.isClosed)
  })

  test.each([
    ['with half a header block', halfHead],
    ['with a part of a header frame', partOfFrame],
  ])('%s behind a request is disconnected after timeouts.headers', async (_name, hold) => {
    // The time for the first request counts from the connection.
    const { gateway } = await start({ timeouts: { headers: '3s', drain: '30s' } })
    const client = await FrameClient.connect(gateway.port)
    expect(await ask(client, '/health')).toBe(200)
    hold(client)
    await until('it is closed', () => client.isClosed)
  })

  test.each([
    ['no preface', ''],
    ['a part of the preface', 'PRI * HTTP/2.0'],
  ])('with %s is disconnected after timeouts.headers', async (_name, text) => {
    const { gateway } = await start({ timeouts: { headers: '400ms' } })
    const socket = connect({
      port: gateway.port,
      host: LOOPBACK,
      ALPNProtocols: ['h2'],
      rejectUnauthorized: false,
    })
    onTestFinished(() => void socket.destroy())
    socket.on('error', nothing).resume()
    await once(socket, 'secureConnect')
    for (const letter of text) socket.write(letter)
    await until('it is closed', () => socket.closed)
  })

  test('by not closing its side after GOAWAY is disconnected', async () => {
    const { gateway } = await start({ timeouts: { keepAlive: '300ms', drain: '30s' } })
    const raw = connectTcp({ port: gateway.port, host: LOOPBACK, allowHalfOpen: true })
    const options = { ALPNProtocols: ['h2'], rejectUnauthorized: false, allowHalfOpen: true }
    const socket = connect({ ...options, socket: raw })
    onTestFinished(() => void raw.destroy())
    let isGone = false
    socket.on('error', nothing).resume()
    raw.on('error', nothing)
    await once(socket, 'secureConnect')
    const head = block(requestFields('/health'))
    const all = flags.endStream | flags.endHeaders
    socket.write(
      Buffer.concat([PREFACE, settingsFrame([]), frame(frameTypes.headers, all, 1, head)]),
    )
    await once(socket, 'end')
    // Writes are answered with a reset once the gateway has closed the socket.
    await until('it is closed', () => {
      if (!isGone) raw.write('x', (error) => (isGone = error !== undefined && error !== null))
      return isGone
    })
  })

  test('is not one whose long response is under way', async () => {
    const answer: Answer = (_request, response) =>
      void setTimeout(() => response.end('late'), 2 * HEADERS_MS)
    const { gateway } = await start({ timeouts: { headers: `${HEADERS_MS}ms` } }, answer)
    const client = await FrameClient.connect(gateway.port)
    const id = client.request(requestFields('/'))
    await until('it is answered', () => client.isClosed || client.answer(id).isEnded)
    expect(client.answer(id)).toMatchObject({ status: 200, body: 'late' })
    expect(await ask(client, '/health')).toBe(200)
  })

  test('is not one whose malformed request was reset', async () => {
    const answer: Answer = (_request, response) =>
      void setTimeout(() => response.end('late'), 2 * HEADERS_MS)
    const { gateway } = await start({ timeouts: { headers: `${HEADERS_MS}ms` } }, answer)
    const client = await FrameClient.connect(gateway.port)
    client.answersPings = true
    const id = client.request(requestFields('/'))
    const malformed = client.request(requestFields('/', ['X-Upper', '1']))
    await until('it is reset', () => client.answer(malformed).reset !== undefined)
    await until('it is answered', () => client.isClosed || client.answer(id).isEnded)
    expect(client.answer(id)).toMatchObject({ status: 200, body: 'late' })
  })
})
