/** How a client connects to a listener through connections that hang, are slow or are refused. */

import { readFileSync } from 'node:fs'
import { createSecureServer } from 'node:http2'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { startFaultProxy } from '../../../../../test/support/faults/fault-proxy.ts'
import {
  makeRegionCertificates,
  type RegionCertificate,
} from '../../../../../test/support/regions/region-certificates.ts'
import { LOOPBACK } from '../../../../../test/support/servers/ports.ts'
import { makeFolder, removeFolder } from '../../../../../test/support/servers/server-process.ts'
import { until } from '../../../../../test/support/servers/until.ts'
import { createTopology } from '../topology.ts'
import { LinkClient } from './link-client.ts'
import { type RefusedReason, startLinkServer } from './link-server.ts'

const folder = makeFolder()
let certificates: ReadonlyMap<string, RegionCertificate>

beforeAll(() => {
  certificates = makeRegionCertificates(folder, ['eu', 'us'])
})

afterAll(() => removeFolder(folder))

function tlsOf(region: string) {
  const { cert, key, ca } = certificates.get(region) as RegionCertificate
  return { cert: readFileSync(cert), key: readFileSync(key), ca: readFileSync(ca) }
}

function topologyOf(self: string, port: number) {
  const endpoint = `${LOOPBACK}:${port}`
  return createTopology(self, { list: { eu: { endpoint }, us: { endpoint } } } as never)
}

async function startEu() {
  const refused: RefusedReason[] = []
  const server = await startLinkServer({
    ...{ topology: topologyOf('eu', 0), host: LOOPBACK, port: 0, tls: tlsOf('eu') },
    ...{ token: undefined, handlers: new Map() },
    isForgotten: () => false,
    onMessage: () => undefined,
    onRefused: (reason) => refused.push(reason),
  })
  onTestFinished(() => server.close())
  return { port: server.port, refused }
}

/** A client of us, which connects to this port. */
function startUs(port: number) {
  const changes: boolean[] = []
  const client = new LinkClient({
    ...{ topology: topologyOf('us', port), peer: 'eu', tls: tlsOf('us'), token: undefined },
    // Long, so that nothing is given up on a machine that stalls.
    deadlineMs: 5_000,
    onChange: (isUp) => changes.push(isUp),
    onForgotten: () => undefined,
  })
  onTestFinished(() => client.close())
  return { client, changes }
}

/** Takes connections by their number; returns those that were taken. */
async function startPort(take: (socket: Socket, at: number) => void) {
  const taken: Socket[] = []
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    taken.push(socket)
    take(socket, taken.length - 1)
  })
  await new Promise<void>((resolve) => server.listen(0, LOOPBACK, resolve))
  onTestFinished(() => {
    server.close()
    for (const socket of taken) socket.destroy()
  })
  return { port: (server.address() as AddressInfo).port, taken }
}

function forward(socket: Socket, port: number): void {
  const target = connect(port, LOOPBACK)
  target.on('error', () => socket.destroy())
  target.on('close', () => socket.destroy())
  socket.on('close', () => target.destroy())
  socket.pipe(target).pipe(socket)
}

const isOpen = (socket: Socket | undefined) => socket?.destroyed === false

test('a later attempt connects while an earlier one hangs', async () => {
  const eu = await startEu()
  let openAtSecond = false
  const { port, taken } = await startPort((socket, at) => {
    // The end of a connection that is not read is not noticed.
    if (at === 0) socket.resume()
    else forward(socket, eu.port)
    openAtSecond ||= at > 0 && isOpen(taken[0])
  })
  const { client } = startUs(port)
  await until('it is up', () => client.isUp)
  expect(openAtSecond).toBe(true)
  await until('the attempt that hangs is closed', () => !isOpen(taken[0]))
})

test('at most four attempts hang at a time, and the oldest is not replaced', async () => {
  const { port, taken } = await startPort((socket) => socket.resume())
  const { client } = startUs(port)
  await until('others are replaced', () => taken.filter((one) => !isOpen(one)).length >= 3)
  expect(isOpen(taken[0])).toBe(true)
  await until('four are left', () => taken.filter(isOpen).length <= 4)
  client.close()
  await until('all are closed', () => taken.filter(isOpen).length === 0)
  const count = taken.length
  await sleep(500)
  expect(taken.length).toBe(count)
})

test('a listener that accepts connections and answers nothing does not win', async () => {
  const eu = await startEu()
  const { cert, key } = tlsOf('eu')
  const silent = createSecureServer({ cert, key })
  await new Promise<void>((resolve) => silent.listen(0, LOOPBACK, resolve))
  onTestFinished(() => void silent.close())
  const silentPort = (silent.address() as AddressInfo).port
  const { port, taken } = await startPort((socket, at) => {
    forward(socket, at === 0 ? silentPort : eu.port)
  })
  const { client } = startUs(port)
  await until('it is up', () => client.isUp)
  expect(taken.length).toBeGreaterThan(1)
  await until('the first is closed', () => !isOpen(taken[0]))
})

test('of several slow attempts one is left, and none counts as refused', async () => {
  const eu = await startEu()
  const proxy = await startFaultProxy({ port: eu.port })
  onTestFinished(() => proxy.stop())
  await proxy.set({ latencyMs: 200 })
  const { client, changes } = startUs(proxy.port)
  await until('it is up', () => client.isUp)
  expect((await proxy.traffic()).accepted).toBeGreaterThan(1)
  await until('one is left', async () => (await proxy.traffic()).open === 1)
  expect(changes).toEqual([true])
  expect(eu.refused).toEqual([])
})

test('a listener that refuses at once is asked no more often than a silent one', async () => {
  const { port, taken } = await startPort((socket) => socket.resetAndDestroy())
  const startMs = performance.now()
  const { client, changes } = startUs(port)
  await until('it was refused five times', () => taken.length >= 5)
  expect(performance.now() - startMs).toBeGreaterThan(700)
  expect(client.state().problem).toBe('ECONNRESET')
  // Reported once.
  expect(changes).toEqual([false])
})

test('a hint that the region is back begins an attempt, but not a storm', async () => {
  const { port, taken } = await startPort((socket) => socket.resume())
  const { client } = startUs(port)
  await until('the first attempt hangs', () => taken.length === 1)
  const startMs = performance.now()
  for (let times = 0; taken.length < 6; times++) {
    client.hurry()
    await sleep(times === 0 ? 0 : 5)
  }
  expect(performance.now() - startMs).toBeGreaterThan(400)
  expect(performance.now() - startMs).toBeLessThan(5_000)
})
