/** Which messages a region answers: names, tokens, lists and types of other regions. */

import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { fixedWindow, memoryStore } from 'tidegate'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { frameTypes } from '../../../packages/server/src/regions/link/frames.ts'
import { LinkClient } from '../../../packages/server/src/regions/link/link-client.ts'
import {
  type FrameHandler,
  type LinkServer,
  type RefusedReason,
  startLinkServer,
} from '../../../packages/server/src/regions/link/link-server.ts'
import { peerService } from '../../../packages/server/src/regions/peer/peer-service.ts'
import { encodeCall } from '../../../packages/server/src/regions/peer/store-messages.ts'
import { createTopology } from '../../../packages/server/src/regions/topology.ts'
import {
  makeRegionCertificates,
  type RegionCertificate,
} from '../../support/regions/region-certificates.ts'
import { LOOPBACK } from '../../support/servers/ports.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { until } from '../../support/servers/until.ts'

const folder = makeFolder()
let certificates: ReadonlyMap<string, RegionCertificate>

beforeAll(() => {
  certificates = makeRegionCertificates(folder, ['eu', 'us', 'sa'])
})

afterAll(() => removeFolder(folder))

const store = memoryStore()
const limit = fixedWindow({ limit: 5, per: '1h' })

function tlsOf(region: string) {
  const { cert, key, ca } = certificates.get(region) as RegionCertificate
  return { cert: readFileSync(cert), key: readFileSync(key), ca: readFileSync(ca) }
}

function topologyOf(self: string, port: number, shares = { eu: 1, us: 1 }) {
  const list = Object.entries(shares).map(([name, share]) => {
    return [name, { endpoint: `${LOOPBACK}:${port}`, share }]
  })
  return createTopology(self, { list: Object.fromEntries(list) })
}

/** Regions that eu has forgotten, and the ports of listeners that clients were told so by. */
const forgotten = new Set<string>()

/** Reasons that the client of a test has reported, undefined when it was up. */
const reported: (string | undefined)[] = []
const forgetful: number[] = []

interface Listening {
  readonly server: LinkServer
  readonly refused: RefusedReason[]
}

/** The listener of eu. */
async function listen(token?: string): Promise<Listening> {
  const refused: RefusedReason[] = []
  const service: FrameHandler = peerService(store, (name) =>
    name === 'quota' ? 'home' : undefined,
  )
  const server = await startLinkServer({
    topology: topologyOf('eu', 0),
    host: LOOPBACK,
    port: 0,
    tls: tlsOf('eu'),
    token,
    handlers: new Map([[frameTypes.store, service]]),
    isForgotten: (region) => forgotten.has(region),
    onMessage: () => undefined,
    onRefused: (reason) => refused.push(reason),
  })
  onTestFinished(() => server.close())
  return { server, refused }
}

interface Caller {
  readonly certificate?: string
  readonly self?: string
  readonly peer?: string
  readonly token?: string
  readonly shares?: { eu: number; us: number }
}

/** A client that claims to be us. */
function call({ server }: Listening, caller: Caller = {}): LinkClient {
  const { certificate = 'us', self = 'us', peer = 'eu', token, shares } = caller
  const client = new LinkClient({
    topology: topologyOf(self, server.port, shares),
    peer,
    tls: tlsOf(certificate),
    token,
    deadlineMs: 5_000,
    onChange: (_, problem) => reported.push(problem),
    onForgotten: () => forgetful.push(server.port),
  })
  onTestFinished(() => client.close())
  return client
}

const quota = (name: string) =>
  encodeCall({ kind: 'all', group: [{ name, key: 'a', limit, cost: 1 }] })

test('a region with its certificate is answered, over one connection', async () => {
  const eu = await listen()
  const client = call(eu)
  await until('it is up', () => client.isUp)
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => client.request(frameTypes.store, quota('quota'))),
  )
  expect(answers).toHaveLength(50)
  // A ping, and one message for all calls of a turn.
  expect(client.state().messages).toBeLessThanOrEqual(3)
  expect(Math.abs(client.state().clockOffsetMs ?? Infinity)).toBeLessThan(1_000)
})

test('calls of a process that has just started wait for its first connection', async () => {
  const client = call(await listen())
  expect(client.isUp).toBe(false)
  await expect(client.request(frameTypes.store, quota('quota'))).resolves.toBeDefined()
})

test('calls are refused at once after the first connection has failed', async () => {
  const eu = await listen()
  await eu.server.close()
  const client = call(eu)
  const early = client.request(frameTypes.store, quota('quota'))
  await expect(early).rejects.toThrow('cannot be reached')
  await expect(client.request(frameTypes.store, quota('quota'))).rejects.toThrow('ECONNREFUSED')
})

test('a listener closes while the handshake of a connection has only begun', async () => {
  const eu = await listen()
  const socket = connect(eu.server.port, LOOPBACK)
  onTestFinished(() => {
    socket.destroy()
  })
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  const ended = once(socket, 'close')
  await eu.server.close()
  await ended
})

test.each([
  ['the certificate of another region', { certificate: 'sa' }, 'identity', 'the name of this'],
  ['another list of shares', { shares: { eu: 1, us: 2 } }, 'fingerprint', 'its list of regions'],
] as const)('a region with %s is refused', async (_, caller, reason, problem) => {
  const eu = await listen()
  reported.splice(0)
  const client = call(eu, caller)
  await until('it is refused', () => eu.refused.includes(reason))
  await until('it knows why', () => client.state().problem?.includes(problem) === true)
  await expect(client.request(frameTypes.store, quota('quota'))).rejects.toThrow(problem)
  // Pings are refused too, and reported once.
  const count = eu.refused.length
  await until('it is refused again', () => eu.refused.length > count)
  expect(reported).toEqual([expect.stringContaining(problem)])
})

test('a refusal of a region that was up is reported, and its end', async () => {
  const eu = await listen()
  reported.splice(0)
  const client = call(eu)
  await until('it is up', () => client.isUp)
  forgotten.add('us')
  onTestFinished(() => forgotten.clear())
  await until('it is refused', () => reported.length >= 2)
  forgotten.clear()
  await until('it is up again', () => client.isUp)
  expect(reported).toEqual([undefined, 'it has forgotten this region', undefined])
})

test('a region that was forgotten is refused, and learns it', async () => {
  forgotten.add('us')
  onTestFinished(() => forgotten.clear())
  const eu = await listen()
  const client = call(eu)
  await until('it is told so', () => forgetful.includes(eu.server.port))
  await expect(client.request(frameTypes.store, quota('quota'))).rejects.toThrow('has forgotten')
})

test('a listener with the certificate of another region is not used', async () => {
  const eu = await listen()
  const client = call(eu, { certificate: 'eu', self: 'eu', peer: 'us' })
  await until('it knows why', () => client.state().problem?.includes('no DNS name us') === true)
  expect(client.isUp).toBe(false)
})

test('a token replaces client certificates, and a wrong one is refused', async () => {
  const eu = await listen('a-token-of-all-regions')
  const client = call(eu, { token: 'a-token-of-all-regions' })
  await until('it is up', () => client.isUp)
  const wrong = call(eu, { token: 'another' })
  await until('it is refused', () => wrong.state().problem?.includes('the token') === true)
  expect(eu.refused).toContain('identity')
})

test('other limits, reserves, types and malformed frames are refused, one by one', async () => {
  const eu = await listen()
  const client = call(eu)
  await until('it is up', () => client.isUp)
  const bodies = [quota('other'), quota('quota~reserve'), Buffer.from([255, 255])]
  for (const body of bodies) {
    await expect(client.request(frameTypes.store, body)).rejects.toThrow('could not decide')
  }
  await expect(client.request(200, Buffer.alloc(0))).rejects.toThrow('could not decide')
  await expect(client.request(frameTypes.store, quota('quota'))).resolves.toBeDefined()
})
