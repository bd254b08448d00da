import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls, createServer as createTlsServer } from 'node:tls'
import { describe, expect, it, onTestFinished } from 'vitest'
import { listening } from '../../../../../test/e2e/gateway/test-upstream.ts'
import { makeCertificate } from '../../../../../test/support/servers/certificates.ts'
import { LOOPBACK } from '../../../../../test/support/servers/ports.ts'
import { until } from '../../../../../test/support/servers/until.ts'
import { SendWatch } from './send-watch.ts'
import { tcpHandleOf } from './tcp-handle.ts'

const TIMEOUT_MS = 1_000

/** More than the kernel takes for a client that does not read. */
const LARGE = Buffer.alloc(64 * 1_024 ** 2)

/** A client that reads nothing of much that is written for it, and the TCP socket of the server. */
async function blocked(isEncrypted: boolean): Promise<{ client: Socket; socket: Socket }> {
  const sockets: Socket[] = []
  const server = createServerOf(isEncrypted, (socket) => {
    socket.on('error', () => undefined).write(LARGE)
  })
  server.on('connection', (socket: Socket) => sockets.push(socket))
  const place = { port: await listening(server), host: LOOPBACK }
  const client = isEncrypted ? connectTls({ ...place, rejectUnauthorized: false }) : connect(place)
  client.on('error', () => undefined).pause()
  onTestFinished(() => {
    client.destroy()
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const socket = await until('bytes wait', () => {
    return sockets.find((one) => (tcpHandleOf(one)?.writeQueueSize ?? 0) > 0)
  })
  return { client, socket }
}

function createServerOf(isEncrypted: boolean, serve: (socket: Socket) => void): Server {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-send-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  if (!isEncrypted) return createServer(serve)
  const { certFile, keyFile } = makeCertificate(folder)
  return createTlsServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) }, serve)
}

describe.each([
  ['plain', false],
  ['encrypted', true],
])('a client of a connection that is %s', (_name, isEncrypted) => {
  it('is late once it has taken nothing for the timeout', async () => {
    const { socket } = await blocked(isEncrypted)
    const watch = new SendWatch(socket, TIMEOUT_MS)
    expect(watch.isLate(10_000)).toBe(false)
    expect(watch.isLate(10_000 + TIMEOUT_MS)).toBe(false)
    expect(watch.isLate(10_001 + TIMEOUT_MS)).toBe(true)
  })

  it('is not late where it takes some bytes within each timeout', async () => {
    const { client, socket } = await blocked(isEncrypted)
    const watch = new SendWatch(socket, TIMEOUT_MS)
    let nowMs = 10_000
    expect(watch.isLate(nowMs)).toBe(false)
    for (let step = 0; step < 3; step += 1) {
      const before = takenBytes(socket)
      await until('the kernel takes more', () => {
        client.read()
        return takenBytes(socket) > before
      })
      nowMs += TIMEOUT_MS * 2
      expect(watch.isLate(nowMs)).toBe(false)
    }
    expect(watch.isLate(nowMs + TIMEOUT_MS * 2)).toBe(true)
  })

  it('is not late once it has taken everything', async () => {
    const { client, socket } = await blocked(isEncrypted)
    const watch = new SendWatch(socket, TIMEOUT_MS)
    expect(watch.isLate(10_000)).toBe(false)
    client.resume()
    await until('nothing waits', () => tcpHandleOf(socket)?.writeQueueSize === 0)
    await until('all has arrived', () => client.bytesRead >= LARGE.length)
    expect(watch.isLate(10_000 + TIMEOUT_MS * 2)).toBe(false)
  })
})

it('has no TCP handle once the socket is closed', async () => {
  const { socket } = await blocked(false)
  socket.destroy()
  expect(tcpHandleOf(socket)).toBeUndefined()
  expect(new SendWatch(socket, TIMEOUT_MS).isLate(Number.MAX_SAFE_INTEGER)).toBe(false)
})

function takenBytes(socket: Socket): number {
  const tcp = tcpHandleOf(socket)
  return tcp === undefined ? 0 : tcp.bytesWritten - tcp.writeQueueSize
}
