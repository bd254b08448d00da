/**
 * Clients that disconnect at any point, in every protocol, against a real process: it survives,
 * releases all resources, and serves the next client.
 */

import type { EventEmitter } from 'node:events'
import { type ClientHttp2Session, connect as connectHttp2, constants } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { Agent, request } from 'undici'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type ProbedGateway, startProbedGateway } from '../../security/probed-gateway.ts'
import { LOOPBACK } from '../../support/servers/ports.ts'
import { until } from '../../support/servers/until.ts'
import { seed, sizes } from '../../support/suite.ts'
import { makeAuthority } from './authority.ts'
import { startUpstream } from './test-upstream.ts'

const CLIENTS = 24

type Random = (below: number) => number

/** Mulberry32, which is small and deterministic. */
function randomFrom(seed: number): Random {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

const paths = ['/ok', '/late', '/large', '/cut', '/never', '/health', '/%', '/a;b']

const head = (line: string, ...fields: string[]) =>
  `${[`${line} HTTP/1.1`, 'Host: a.example', ...fields].join('\r\n')}\r\n\r\n`

const websocket = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13']

/** Whole requests, of which a client sends a random prefix. */
const messages: readonly ((path: string) => string)[] = [
  (path) => head(`GET ${path}`),
  (path) => head(`HEAD ${path}`),
  (path) => head(`GET ${path}`) + head(`GET ${path}`) + head('GET /ok'),
  (path) => `${head(`POST ${path}`, 'Content-Length: 20')}${'x'.repeat(20)}`,
  (path) => head(`POST ${path}`, 'Content-Length: 300000') + 'x'.repeat(300_000),
  (path) => `${head(`POST ${path}`, 'Transfer-Encoding: chunked')}5\r\nhello\r\n0\r\n\r\n`,
  (path) =>
    head(`PUT ${path}`, 'Transfer-Encoding: chunked') +
    `4000\r\n${'x'.repeat(16_384)}\r\n`.repeat(9),
  (path) => `${head(`POST ${path}`, 'Transfer-Encoding: chunked')}zz\r\nhello`,
  (path) => `${head(`POST ${path}`, 'Content-Length: 5', 'Expect: 100-continue')}hello`,
  (path) => head(`GET ${path}`, 'Expect: something'),
  (path) => head(`GET ${path}`, ...websocket, 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='),
  () => `${head('GET /ws', ...websocket, 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==')}early`,
  () => head('CONNECT a.example:443') + 'x'.repeat(100),
  () => '\x16\x03\x01 no HTTP\r\n\r\n',
]

async function startFuzzed(gateway: object): Promise<ProbedGateway> {
  const upstream = await startUpstream((incoming, response) => {
    if (incoming.url === '/never') return
    if (incoming.url === '/large') response.end(Buffer.alloc(2 * 1_024 ** 2))
    else if (incoming.url === '/late') setTimeout(() => response.end('late'), 30)
    else if (incoming.url === '/cut') {
      response.writeHead(200, { 'content-length': '100' }).write('some')
      setTimeout(() => response.destroy(), 5)
    } else response.end('ok')
  })
  upstream.server.on('upgrade', (_incoming, socket: Socket) => {
    socket.on('error', () => undefined)
    socket.write('HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    socket.pipe(socket)
  })
  const timeouts = { wait: '200ms', response: '200ms' }
  // Few connections, so that many requests are aborted while they wait.
  const api = { targets: [upstream.url], connectionsMax: 4, waitingMax: 16, timeouts }
  const limits = [{ name: 'slots', key: 'ip', algorithm: 'concurrency', limit: 1_000, ttl: '1m' }]
  return startProbedGateway({ gateway, upstreams: { api }, limits })
}

/** Runs clients in parallel sequences until the time is over, and there were enough of them. */
async function fuzz(clientsMin: number, client: (random: Random) => Promise<void>): Promise<void> {
  const endMs = performance.now() + sizes.vanishingMs
  let count = 0
  const runs = Array.from({ length: CLIENTS }, async (_, at) => {
    const random = randomFrom(seed + at)
    while (performance.now() < endMs || count < clientsMin) {
      await client(random)
      count += 1
    }
  })
  await Promise.all(runs)
}

const pick = <T>(list: readonly T[], random: Random) => list[random(list.length)] as T

function leave(raw: Socket, socket: Socket, random: Random): void {
  const way = random(3)
  if (way === 0) raw.resetAndDestroy()
  else if (way === 1) socket.destroy()
  else socket.end().on('end', () => socket.destroy())
}

function openSocket(port: number): Socket {
  return connect({ port, host: LOOPBACK }).on('error', () => undefined)
}

async function breakOff(raw: Socket, socket: Socket, random: Random): Promise<void> {
  const text = pick(messages, random)(pick(paths, random))
  const end = random(4) === 0 ? text.length : random(text.length + 1)
  const cut = random(end + 1)
  if (random(3) > 0) socket.resume()
  socket.write(text.slice(0, cut), 'latin1')
  await sleep(random(10))
  if (!socket.destroyed) socket.write(text.slice(cut, end), 'latin1')
  await sleep(random(40))
  leave(raw, socket, random)
  await sleep(1)
  raw.destroy()
}

function isConnected(client: EventEmitter): Promise<void> {
  return new Promise((resolve) => {
    for (const event of ['connect', 'secureConnect', 'close']) client.once(event, () => resolve())
  })
}

async function breakOffHttp2(session: ClientHttp2Session, random: Random): Promise<void> {
  for (let count = random(6); count >= 0; count -= 1) {
    const method = pick(['GET', 'POST', 'PUT'], random)
    const fields = { ':path': pick(paths, random), ':method': method }
    const stream = session.request(fields, { endStream: method === 'GET' })
    stream.on('error', () => undefined)
    if (random(2) === 0) stream.resume()
    if (method !== 'GET') stream.write('x'.repeat(random(100_000)))
    if (random(2) === 0) stream.end()
    const closesAfterMs = random(80)
    // Open streams end with the connection.
    if (closesAfterMs === 0) stream.close(constants.NGHTTP2_CANCEL)
    else setTimeout(() => stream.close(constants.NGHTTP2_CANCEL), closesAfterMs).unref()
  }
  await sleep(random(40))
}

async function expectAlive(gateway: ProbedGateway, url: string): Promise<void> {
  const agent = new Agent({ connect: { rejectUnauthorized: false }, allowH2: false })
  onTestFinished(() => agent.destroy())
  const statusOf = async (path: string) => {
    const { statusCode, body } = await request(`${url}${path}`, { dispatcher: agent })
    await body.dump()
    return statusCode
  }
  // More at a time than there are slots if any had leaked.
  const together = async () => Promise.all(Array.from({ length: 8 }, () => statusOf('/late')))
  await until('all places are free', async () => {
    return gateway.child.exitCode !== null || (await together()).every((status) => status === 200)
  })
  expect(gateway.child.exitCode).toBeNull()
  expect(gateway.output()).not.toContain('gateway.error')
}

describe('clients that break off at any point', () => {
  test('of plain HTTP/1 and WebSockets do not end the process', async () => {
    const gateway = await startFuzzed({})
    await fuzz(100, async (random) => {
      const socket = openSocket(gateway.port)
      await breakOff(socket, socket, random)
    })
    await expectAlive(gateway, gateway.url)
  })

  const secured = async () => {
    const { certFile, keyFile } = makeAuthority().issue('localhost', 'IP:127.0.0.1')
    return startFuzzed({ tls: { cert: certFile, key: keyFile } })
  }

  test('of HTTP/1 and WebSockets over TLS do not end the process', async () => {
    const gateway = await secured()
    await fuzz(50, async (random) => {
      const raw = openSocket(gateway.port)
      const socket = connectTls({ socket: raw, rejectUnauthorized: false })
      socket.on('error', () => undefined)
      if (random(8) > 0) await isConnected(socket)
      await breakOff(raw, socket, random)
    })
    await expectAlive(gateway, `https://${LOOPBACK}:${gateway.port}`)
  })

  test('of HTTP/2 do not end the process', async () => {
    const gateway = await secured()
    await fuzz(50, async (random) => {
      const raw = openSocket(gateway.port)
      const options = { socket: raw, rejectUnauthorized: false, ALPNProtocols: ['h2'] }
      const socket = connectTls(options).on('error', () => undefined)
      const session = connectHttp2(`https://${LOOPBACK}:${gateway.port}`, {
        createConnection: () => socket,
      })
      session.on('error', () => undefined)
      if (random(8) > 0) await isConnected(session)
      if (!session.destroyed) await breakOffHttp2(session, random)
      if (random(2) === 0) raw.resetAndDestroy()
      session.destroy()
      socket.destroy()
      raw.destroy()
    })
    await expectAlive(gateway, `https://${LOOPBACK}:${gateway.port}`)
  })
})
