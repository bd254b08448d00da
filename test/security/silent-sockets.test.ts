/**
 * Silent or slow connections to the small listeners (rate limit service, its pages, admin, decision
 * API). Other addresses are served, and the connections are closed.
 */

import { request as httpRequest } from 'node:http'
import { connect, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { startAdmin } from '../../packages/server/src/admin/admin-listener.ts'
import { frame, PREFACE, requestBlock, types } from '../e2e/rls/raw-http2.ts'
import { request } from '../e2e/rls/rls-client.ts'
import { startTestRls } from '../e2e/rls/rls-server.ts'
import { LOOPBACK } from '../support/servers/ports.ts'
import { until } from '../support/servers/until.ts'

/** Another address of this machine. */
const OTHER_HOST = '127.0.0.2'

/** More than a small listener accepts from all addresses together. */
const SILENT_SOCKETS = 1_010
const PROBES = 50

const config = `
domain: d
descriptors:
  - key: k
    rate_limit: { unit: hour, requests_per_unit: 1000000 }
`

/**
 * Sends the parts, one every 50 ms. It keeps its side open, and keeps sending after the other side
 * has ended, so that it closes only when the server has closed both directions.
 */
function open(port: number, localAddress: string, ...parts: readonly (string | Buffer)[]): Socket {
  const socket = connect({ port, host: LOOPBACK, localAddress, allowHalfOpen: true })
  socket.on('error', () => undefined).resume()
  const rest = [...parts]
  const timer = setInterval(() => {
    const part = rest.shift() ?? (socket.readableEnded ? '.' : undefined)
    if (part !== undefined && socket.writable) socket.write(part)
  }, 50)
  onTestFinished(() => {
    clearInterval(timer)
    socket.destroy()
  })
  return socket
}

async function openMany(port: number): Promise<readonly Socket[]> {
  const sockets = Array.from({ length: SILENT_SOCKETS }, () => open(port, OTHER_HOST))
  await until('all are connected or refused', () => sockets.every(({ connecting }) => !connecting))
  return sockets
}

/** The statuses of probes, each on a connection of its own; 0 without a response. */
function probe(port: number, path: string): Promise<readonly number[]> {
  const ask = () =>
    new Promise<number>((resolve) => {
      const sent = httpRequest({ port, host: LOOPBACK, path, agent: false }, (response) => {
        response.resume()
        resolve(response.statusCode ?? 0)
      })
      sent.on('error', () => resolve(0)).end()
    })
  return Promise.all(Array.from({ length: PROBES }, ask))
}

const allOk = Array.from({ length: PROBES }, () => 200)

describe('1,010 silent connections of one address', () => {
  test('leave the pages of the rate limit service to others, and are closed', async () => {
    const { rls } = await startTestRls(config)
    const port = rls.addresses.http?.port ?? 0
    const body = 'POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n'
    const slowBody = open(port, LOOPBACK, body, ...Array.from({ length: 900 }, () => 'x'))
    const silent = await openMany(port)
    // From here on, because a busy machine takes seconds to open them.
    const startMs = performance.now()
    expect(await probe(port, '/healthcheck')).toEqual(allOk)
    await until('half are refused', () => silent.filter(({ closed }) => !closed).length <= 500)
    await until('all are closed', () => silent.every(({ closed }) => closed))
    await until('the slow body is cut', () => slowBody.closed)
    const tookMs = Math.round(performance.now() - startMs)
    console.info(`silent connections were closed after ${tookMs} ms`)
    // 5 s for a head and 10 s for a request; the default of Node notices both after 30 s or more.
    expect(tookMs).toBeLessThan(25_000)
  })

  test('leave the admin listener to others', async () => {
    const door = await startAdmin({
      api: undefined,
      onError: () => undefined,
      host: LOOPBACK,
      port: 0,
      status: () => ({}),
      isReady: () => true,
    })
    onTestFinished(() => door.close())
    await openMany(door.address.port)
    expect(await probe(door.address.port, '/ready')).toEqual(allOk)
  })
})

describe.each(['own', 'node'] as const)('the gRPC listener, transport %s,', (transport) => {
  const settings = frame(types.settings, 0, 0)

  test('leaves half of its connections to other addresses', async () => {
    const rls = await startTestRls(config, { transport, connectionsMax: 40 })
    const silent = Array.from({ length: 50 }, () => open(rls.port, OTHER_HOST, PREFACE, settings))
    await until('30 are refused', () => silent.filter(({ closed }) => closed).length === 30)
    const { overall_code: code } = await rls.client.ask(request('d', ['k=v']))
    expect(code).toBe('OK')
  })

  test('closes connections that begin something and do not end it', async () => {
    // Longer than a machine stalls before the first bytes are read.
    const rls = await startTestRls(config, { transport, frameMs: 2_500 })
    const idle = open(rls.port, LOOPBACK, Buffer.concat([PREFACE, settings]))
    const half = frame(types.headers, 0, 1, requestBlock)
    const byBytes = Array.from(half, (byte) => Buffer.from([byte]))
    const sockets = {
      nothing: open(rls.port, LOOPBACK),
      preface: open(rls.port, LOOPBACK, PREFACE),
      prefaceByBytes: open(rls.port, LOOPBACK, ...PREFACE.toString('latin1')),
      halfBlock: open(rls.port, LOOPBACK, PREFACE, settings, half),
      emptyContinuations: open(
        ...([rls.port, LOOPBACK, PREFACE, settings, half] as const),
        ...Array.from({ length: 7 }, () => frame(types.continuation, 0, 1)),
      ),
      headersByBytes: open(rls.port, LOOPBACK, PREFACE, settings, ...byBytes),
    }
    const left = () => Object.entries(sockets).filter(([, { closed }]) => !closed)
    await until('all are closed', () => left().length === 0).catch((error: Error) => {
      throw new Error(`open: ${left().map(([name]) => name)}`, { cause: error })
    })
    expect(idle.closed).toBe(false)
    expect((await rls.client.ask(request('d', ['k=v']))).overall_code).toBe('OK')
  })
})
