/** Clients that disconnect at the worst moment affect only their own request. */

import type { Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openRaw } from '../e2e/gateway/raw-client.ts'
import { until } from '../support/servers/until.ts'
import { type ProbedGateway, startProbedGateway } from './probed-gateway.ts'
import { okWith, type RecordingUpstream, startRecordingUpstream } from './recording-upstream.ts'

const post = 'POST /waiting HTTP/1.1\r\nHost: a.example\r\n'

/** Failures of a body that has no upstream connection yet. */
const ends: readonly (readonly [
  name: string,
  bytes: string,
  leave: (socket: Socket) => unknown,
])[] = [
  ['closes', `${post}Content-Length: 10\r\n\r\nabc`, (socket) => socket.destroy()],
  ['resets', `${post}Content-Length: 10\r\n\r\nabc`, (socket) => socket.resetAndDestroy()],
  [
    'sends a wrong chunk',
    `${post}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n`,
    (socket) => socket.write('zz\r\n'),
  ],
  [
    'sends too much and waits',
    `${post}Transfer-Encoding: chunked\r\n\r\n`,
    (socket) => socket.write(`400\r\n${'x'.repeat(1_024)}\r\n`.repeat(20)),
  ],
]

const stops: (() => unknown)[] = []
/** Connections without a response yet. */
const held: Socket[] = []
let upstream: RecordingUpstream
let gateway: ProbedGateway

beforeAll(async () => {
  const atEnd = (stop: () => unknown) => void stops.push(stop)
  upstream = await startRecordingUpstream(({ target }, socket) => {
    if (target !== '/hold') return okWith('ok')
    held.push(socket)
    return undefined
  }, atEnd)
  const policy = {
    upstreams: { api: { targets: [upstream.url], connectionsMax: 1 } },
    gateway: { bodyBytesMax: '10kb', timeouts: { request: '1s' } },
  }
  gateway = await startProbedGateway(policy, { atEnd })
})

afterAll(async () => {
  for (const stop of stops.reverse()) await stop()
})

describe('while its request waits for a connection to the upstream', () => {
  test.each(ends)('a client that %s does not end the process', async (_name, bytes, leave) => {
    const holding = openRaw(gateway.port)
    holding.socket.write('GET /hold HTTP/1.1\r\nHost: a.example\r\n\r\n')
    const upstreamSocket = await until('the only connection is in use', () => held.pop())
    const { socket } = openRaw(gateway.port)
    socket.write(bytes)
    await until('it waits', async () => (await fetch(`${gateway.url}/health`)).ok)
    leave(socket)
    await until('it is over', () => socket.closed || gateway.child.exitCode !== null)
    expect(gateway.child.exitCode).toBeNull()
    expect((await fetch(`${gateway.url}/health`)).status).toBe(200)
    upstreamSocket.write(okWith('late'))
    await until('the first is answered', () => holding.received().includes('late'))
    holding.socket.destroy()
    const response = await fetch(`${gateway.url}/after`)
    expect(await response.text()).toBe('ok')
    expect(gateway.child.exitCode).toBeNull()
    expect(upstream.requests.map(({ target }) => target)).not.toContain('/waiting')
  })
})
