/** Clients that are wrong or slow on a connection, and the effect on it and on others. */

import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect as connectHttp2 } from 'node:http2'
import { connect, createServer, type Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openTunnel } from '../../../packages/server/src/gateway/clients/tunnel.ts'
import { LOOPBACK } from '../../support/servers/ports.ts'
import { until } from '../../support/servers/until.ts'
import { AnswerClient, head, oldHead } from './answer-client.ts'
import { makeAuthority } from './authority.ts'
import { startTestGateway, type TestGateway } from './test-gateway.ts'
import { listening, startRawUpstream, startUpstream } from './test-upstream.ts'
import { differs } from './transport-differences.ts'

const gatewayTo = (url: string, gateway: object = {}, api: object = {}): Promise<TestGateway> =>
  startTestGateway({ gateway, upstreams: { api: { targets: [url], ...api } } })

describe('a body that does not arrive in time', () => {
  test('ends the connection with its answer, which says so', async () => {
    const upstream = await startUpstream()
    const gateway = await gatewayTo(upstream.url, { timeouts: { request: '1s' } })
    const client = new AnswerClient(gateway.port)
    const answer = await client.ask(head('POST /', 'Content-Length: 10'), 'half')
    expect(answer.status).toBe(408)
    expect(answer.headers.connection).toBe('close')
    client.send('a rest', head('GET /next'))
    await client.closed()
    expect(client.statuses).toEqual([408])
    expect(upstream.seen).toEqual([])
  })
})

describe('an answer that breaks off', () => {
  test('is seen to do so also by HTTP/1.0, whose bodies end with the connection', async () => {
    const upstream = await startRawUpstream((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n')
    })
    const gateway = await gatewayTo(upstream.url, {}, { timeouts: { idle: '200ms' } })
    const client = new AnswerClient(gateway.port)
    const codes: unknown[] = []
    client.socket.on('error', (error) => codes.push('code' in error && error.code))
    client.send(oldHead('GET /'))
    await client.closed()
    expect(client.received).toMatch(/half$/)
    expect(codes).toEqual(['ECONNRESET'])
  })
})

describe('a client that takes nothing for a while', () => {
  /**
   * Looks without a change, 20 ms apart. They are counted, because a process that stalls neither
   * looks nor accepts bytes meanwhile.
   */
  const FULL_AFTER_LOOKS = 25
  const PIECE_BYTES = 64 * 1_024

  /** Sends small chunks until they are no longer accepted. */
  async function startChunks() {
    const chunks = `20\r\n${'x'.repeat(32)}\r\n`.repeat(2_000)
    let [isWaiting, looks] = [false, 0]
    const upstream = await startRawUpstream((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
      const sendOn = () => {
        isWaiting = !socket.write(chunks, 'latin1')
        looks = 0
        if (!isWaiting) setImmediate(sendOn)
      }
      socket.on('drain', sendOn)
      sendOn()
    })
    const isFull = () => isWaiting && ++looks > FULL_AFTER_LOOKS
    return { url: upstream.url, full: () => until('the upstream waits', isFull) }
  }

  function collectWarnings(): string[] {
    const warnings: string[] = []
    const onWarning = ({ message }: Error) => warnings.push(message)
    process.on('warning', onWarning)
    onTestFinished(() => void process.off('warning', onWarning))
    return warnings
  }

  test('is waited for once, however small the chunks of its answer are', async () => {
    const warnings = collectWarnings()
    const upstream = await startChunks()
    const gateway = await gatewayTo(upstream.url)
    const client = new AnswerClient(gateway.port)
    client.socket.pause()
    client.send(head('GET /'))
    await upstream.full()
    expect(warnings).toEqual([])
  })

  test('is waited for once over HTTP/2 too', async () => {
    const warnings = collectWarnings()
    const upstream = await startChunks()
    const { folder, caFile, issue } = makeAuthority()
    const { certFile: cert, keyFile: key } = issue('localhost', 'DNS:localhost')
    const policy = {
      gateway: { tls: { cert, key } },
      upstreams: { api: { targets: [upstream.url] } },
    }
    const gateway = await startTestGateway(policy, { folder })
    const session = connectHttp2(`https://${LOOPBACK}:${gateway.port}`, {
      ca: readFileSync(caFile),
      servername: 'localhost',
    })
    session.on('error', () => undefined)
    onTestFinished(() => session.destroy())
    session.request({ ':path': '/' }).on('error', () => undefined)
    await upstream.full()
    expect(warnings).toEqual([])
  })

  test('and then goes is not served on', async () => {
    const upstream = await startUpstream((_request, response) => {
      response.end('x'.repeat(8_000))
    })
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url] } },
      limits: [{ name: 'all', key: 'everyone', limit: 1_000_000, per: '1h' }],
      log: { sampleAllowed: 1 },
    })
    const client = new AnswerClient(gateway.port)
    client.socket.pause()
    client.send(...Array<string>(20_000).fill(head('GET /')))
    let [judged, looks] = [0, 0]
    await until('no more is taken', () => {
      const before = judged
      judged = gateway.logged().length
      looks = judged === before ? looks + 1 : 0
      return judged > 0 && looks > FULL_AFTER_LOOKS
    })
    expect(judged).toBeLessThan(20_000)
    client.socket.resetAndDestroy()
    await gateway.close()
    expect(gateway.logged()).toHaveLength(judged)
  })

  test('gets the last of a tunnel that the upstream has ended', async () => {
    const [client, clientEnd] = await connectedSockets()
    const [upstreamEnd, upstream] = await connectedSockets()
    clientEnd.pause()
    openTunnel(client, upstream, { status: 101, headers: [] }, undefined)
    let sent = 0
    const sendOn = () => {
      if (upstream.bytesRead < sent) return false
      if (client.writableLength > 0) return true
      upstreamEnd.write(Buffer.alloc(PIECE_BYTES))
      sent += PIECE_BYTES
      return false
    }
    await new Promise<void>((resolve) => {
      const turn = () => (sendOn() ? resolve() : setImmediate(turn))
      turn()
    })
    upstreamEnd.end()
    await until('the upstream connection is closed', () => upstream.closed)
    const bytes = readSlowly(clientEnd, PIECE_BYTES)
    clientEnd.resume()
    await until('the client has heard of it', () => clientEnd.closed)
    expect(bytes()).toBe('HTTP/1.1 101 Switching Protocols\r\n\r\n'.length + sent)
  })
})

describe('a client that sends many requests at once', () => {
  /** At most the bytes of one read. */
  const MANY = differs('pipelining') ? 250 : 1_000

  test('does not keep others waiting until all are answered', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url] } },
      routes: [{ match: { path: '/open' }, upstream: 'api' }],
      log: { linesPerSecondMax: 2 * MANY },
    })
    const [many, other] = [new AnswerClient(gateway.port), new AnswerClient(gateway.port)]
    await Promise.all([many, other].map((client) => client.ask(head('GET /health'))))
    many.send(...Array<string>(MANY).fill(head('GET /many')))
    other.send(head('GET /other'))
    expect((await many.answer(MANY)).status).toBe(404)
    const refused = gateway.logged().map(({ endpoint }) => endpoint)
    expect(refused).toHaveLength(MANY + 1)
    expect(refused.indexOf('GET /other')).toBeLessThan(MANY / 2)
  })
})

describe('a client that disconnects before it is accepted', () => {
  /** While it runs, this process is blocked, so the gateway accepts no connection. */
  const sendAndReset = `
    const socket = require('node:net').connect(Number(process.argv[1]), '${LOOPBACK}')
    socket.write(process.argv[2], () => socket.resetAndDestroy())
  `

  test('does not pass as a client without an address, which is on no list', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway({
      ipLists: { deny: [LOOPBACK] },
      upstreams: { api: { targets: [upstream.url] } },
    })
    const program = ['-e', sendAndReset, String(gateway.port), head('GET /unseen')]
    const { status } = spawnSync(process.execPath, program)
    expect(status).toBe(0)
    const answer = await new AnswerClient(gateway.port).ask(head('GET /seen'))
    expect(answer.status).toBe(403)
    expect(gateway.logged().map(({ endpoint }) => endpoint)).toEqual(['GET /seen'])
    expect(upstream.seen).toEqual([])
  })
})

describe('a connection between two requests', () => {
  const CONNECTIONS = 400
  const HEAD_BYTES = 15_000

  test('keeps nothing of the head of the last one', async () => {
    const upstream = await startUpstream()
    const gateway = await gatewayTo(upstream.url)
    const clients = Array.from({ length: CONNECTIONS }, () => new AnswerClient(gateway.port))
    const askAll = (field: string) =>
      Promise.all(clients.map((client) => client.ask(head('GET /health', `X-Long: ${field}`))))
    await askAll('short')
    const before = heapBytes()
    await askAll('x'.repeat(HEAD_BYTES))
    expect(heapBytes() - before).toBeLessThan((CONNECTIONS * HEAD_BYTES) / 2)
  })
})

/** Both ends of one connection; the first may stay open after the other has ended. */
async function connectedSockets(): Promise<[Socket, Socket]> {
  const server = createServer({ allowHalfOpen: true })
  const port = await listening(server)
  const other = connect({ port, host: LOOPBACK })
  const [socket]: Socket[] = await once(server, 'connection')
  server.close()
  for (const one of [socket as Socket, other]) {
    one.on('error', () => one.destroy())
    onTestFinished(() => void one.destroy())
  }
  return [socket as Socket, other]
}

/** Reads chunk by chunk with pauses; returns a function for the number of bytes. */
function readSlowly(socket: Socket, pieceBytes: number): () => number {
  let bytes = 0
  let before = 0
  socket.on('data', (text) => {
    bytes += text.length
    if (bytes - before < pieceBytes) return
    before = bytes
    socket.pause()
    setTimeout(() => socket.resume(), 2)
  })
  return () => bytes
}

function heapBytes(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  return process.memoryUsage().heapUsed
}
