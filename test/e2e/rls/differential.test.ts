/** Compares our transport with node:http2: clients see the same in the same conversations. */

import { expect, test } from 'vitest'
import { type Transport, transports } from '../../../packages/server/src/rls/settings.ts'
import { HpackDecoder } from '../../../packages/server/src/rls/transport/http2/hpack/hpack-decoder.ts'
import { until } from '../../support/servers/until.ts'
import {
  block,
  call,
  type Frame,
  frame,
  message,
  rateLimitRequest,
  rawClient,
  requestBlock,
  requestFields,
  types,
  uint32,
} from './raw-http2.ts'
import { startTestRls } from './rls-server.ts'

const config = `
domain: d
descriptors: [{ key: k, rate_limit: { unit: hour, requests_per_unit: 1000000 } }]
`

const body = message(rateLimitRequest('d', 'k', 'v'))
const headers = (id: number, fields = requestFields as Parameters<typeof block>[0]) =>
  frame(types.headers, 4, id, block(fields))
const without = (name: string) => requestFields.filter(([own]) => own !== name)
const and = (name: string, value: string) => [...requestFields, [name, value] as const]

/** The sent frames, with a final call 101 that is answered if the connection is still open. */
const conversations: Readonly<Record<string, readonly Buffer[]>> = {
  'a call': [call(1, body)],
  'twenty calls': Array.from({ length: 20 }, (_, at) => call(at * 2 + 1, body)),
  'a body in three frames': [
    headers(1),
    frame(0, 0, 1, body.subarray(0, 3)),
    frame(0, 0, 1, body.subarray(3, 6)),
    frame(0, 1, 1, body.subarray(6)),
  ],
  padding: [headers(1), frame(0, 9, 1, Buffer.concat([Buffer.from([2]), body, Buffer.alloc(2)]))],
  'headers in two frames': [
    frame(types.headers, 0, 1, requestBlock.subarray(0, 9)),
    frame(types.continuation, 4, 1, requestBlock.subarray(9)),
    frame(0, 1, 1, body),
  ],
  trailers: [headers(1), frame(0, 0, 1, body), frame(types.headers, 5, 1, block([['a', 'b']]))],
  'an empty body': [headers(1), frame(0, 1, 1)],
  'two messages': [call(1, Buffer.concat([body, body]))],
  'a compressed message': [call(1, message(Buffer.alloc(9), 1))],
  'no protobuf': [call(1, message(Buffer.from([0xff, 0xff])))],
  'a large message': [
    headers(1),
    ...Array.from({ length: 5 }, () => frame(0, 0, 1, Buffer.alloc(16_000))),
  ],
  'another method': [
    headers(
      1,
      requestFields.map(([n, v]) => [n, n === ':path' ? '/x' : v]),
    ),
    frame(0, 1, 1, body),
  ],
  'upper case in a name': [headers(1, and('X-Up', 'y')), frame(0, 1, 1, body)],
  'no path': [headers(1, without(':path')), frame(0, 1, 1, body)],
  'a header of HTTP/1.1': [headers(1, and('connection', 'close')), frame(0, 1, 1, body)],
  'a pseudo-header too late': [headers(1, and(':late', 'x')), frame(0, 1, 1, body)],
  'a wrong content-length': [headers(1, and('content-length', '3')), frame(0, 1, 1, body)],
  'a reset call': [headers(1), frame(types.reset, 0, 1, uint32(8))],
  'a ping': [frame(types.ping, 0, 0, Buffer.from('12345678'))],
  'a small window': [
    frame(types.settings, 0, 0, Buffer.concat([Buffer.from([0, 4]), uint32(0)])),
    call(1, body),
    frame(types.settings, 0, 0, Buffer.concat([Buffer.from([0, 4]), uint32(1_000)])),
  ],
  'a small table': [
    frame(types.settings, 0, 0, Buffer.concat([Buffer.from([0, 1]), uint32(0)])),
    call(1, body),
  ],
  'data of stream 0': [frame(0, 0, 0, body)],
  'data of an idle stream': [frame(0, 0, 9, body)],
  'a push': [frame(types.pushPromise, 4, 1, Buffer.alloc(8))],
  'an even stream': [frame(types.headers, 5, 2, requestBlock)],
  'a lower stream': [call(5, body), call(3, body)],
  'a short ping': [frame(types.ping, 0, 0, Buffer.alloc(3))],
  'a long frame': [frame(0, 0, 1, Buffer.alloc(17_000))],
  'a wrong block': [frame(types.headers, 5, 1, Buffer.from([0xff, 0xff]))],
  'a wide window': [frame(types.windowUpdate, 0, 0, uint32(0x7fff_ffff))],
}

/** Each stream's status or reset, and whether the connection stayed open. */
async function talk(port: number, parts: readonly Buffer[]): Promise<Record<string, string>> {
  const raw = await rawClient(port)
  raw.send(...parts, call(101, body))
  const isLast = ({ type, flags, streamId }: Frame) =>
    streamId === 101 && type === types.headers && (flags & 1) === 1
  await until('it is over', () => raw.isClosed || raw.frames.some(isLast))
  const decoder = new HpackDecoder()
  const seen: Record<string, string> = {}
  for (const { type, streamId, payload, flags } of raw.frames) {
    if (type === types.reset) seen[streamId] ??= 'reset'
    if (type === types.ping && (flags & 1) === 1) seen.ping = payload.toString('latin1')
    if (type !== types.headers) continue
    decoder.decode(payload, (name, value) => {
      if (name === 'grpc-status') seen[streamId] = `status ${value}`
    })
  }
  raw.socket.destroy()
  return raw.frames.some(isLast) ? seen : { connection: 'closed' }
}

/** Differences from node:http2: our behaviour, and the reason. */
const differences: Readonly<Record<string, Record<string, string>>> = {
  // RFC 9113, 8.1.1: malformed, which is an error of the stream; node ends the connection.
  'a wrong content-length': { 1: 'reset', 101: 'status 0' },
  // RFC 9113, 5.1.1: an error of the connection; node ignores the stream.
  'a lower stream': { connection: 'closed' },
}

test.each(Object.entries(conversations))('%s', async (name, parts) => {
  const outcomes = new Map<Transport, Record<string, string>>()
  for (const transport of transports) {
    const { port } = await startTestRls(config, { transport })
    outcomes.set(transport, await talk(port, parts))
  }
  const own = differences[name]
  if (own === undefined) expect(outcomes.get('own')).toEqual(outcomes.get('node'))
  else {
    expect(outcomes.get('own')).toEqual(own)
    expect(outcomes.get('node')).not.toEqual(own)
  }
})
