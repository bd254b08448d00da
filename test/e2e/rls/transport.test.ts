/**
 * Hostile and broken clients against the transport, with raw frames: the process survives, and
 * other clients are served. h2spec tests conformance.
 */

import { describe, expect, test } from 'vitest'
import { until } from '../../support/servers/until.ts'
import {
  block,
  call,
  frame,
  message,
  rateLimitRequest,
  rawClient,
  requestBlock,
  requestFields,
  types,
  uint32,
} from './raw-http2.ts'
import { request } from './rls-client.ts'
import { startTestRls, type TestRls } from './rls-server.ts'

const config = `
domain: d
descriptors:
  - key: k
    rate_limit: { unit: hour, requests_per_unit: 1000000 }
`

const errors = {
  none: 0,
  protocol: 1,
  flowControl: 3,
  frameSize: 6,
  refused: 7,
  compression: 9,
  calm: 11,
} as const

const body = message(rateLimitRequest('d', 'k', 'v'))

async function expectServed({ client }: TestRls): Promise<void> {
  expect((await client.ask(request('d', ['k=v']))).overall_code).toBe('OK')
}

describe('a call', () => {
  test('is answered in chunks of any size', async () => {
    const rls = await startTestRls(config)
    const raw = await rawClient(rls.port)
    for (const byte of call(1, body)) raw.send(Buffer.from([byte]))
    expect(await raw.trailersOf(1)).toContain('grpc-status\x010')
    await expectServed(rls)
  })

  test('with a body in several frames, padding and trailers is the same call', async () => {
    const rls = await startTestRls(config)
    const raw = await rawClient(rls.port)
    raw.send(
      frame(types.headers, 0, 1, requestBlock.subarray(0, 20)),
      frame(types.continuation, 4, 1, requestBlock.subarray(20)),
      frame(types.data, 0, 1, body.subarray(0, 7)),
      frame(types.data, 8, 1, Buffer.concat([Buffer.from([3]), body.subarray(7), Buffer.alloc(3)])),
      frame(types.headers, 5, 1, block([['x-checksum', '1']])),
    )
    expect(await raw.trailersOf(1)).toContain('grpc-status\x010')
  })

  test('of another method, content or encoding is refused by a status', async () => {
    const rls = await startTestRls(config)
    const raw = await rawClient(rls.port)
    const other = requestFields.map(
      ([name, value]) => [name, name === ':path' ? '/x' : value] as const,
    )
    raw.send(frame(types.headers, 4, 1, block(other)), frame(types.data, 1, 1, body))
    expect(await raw.trailersOf(1)).toContain('grpc-status\x0212')
    raw.send(call(3, message(Buffer.alloc(100), 1)))
    expect(await raw.trailersOf(3)).toContain('grpc-status\x0212')
    expect(await raw.trailersOf(3)).toContain('grpc-accept-encoding\x08identity')
    raw.send(call(5, Buffer.from([0, 0, 0])))
    expect(await raw.trailersOf(5)).toContain('grpc-status\x0213')
    raw.send(call(7, Buffer.concat([body, body])))
    expect(await raw.trailersOf(7)).toContain('grpc-status\x0213')
    raw.send(call(9, message(Buffer.from([0xff, 0xff, 0xff]))))
    expect(await raw.trailersOf(9)).toContain('grpc-status\x013')
    const plain = requestFields.filter(([name]) => name !== 'content-type')
    raw.send(frame(types.headers, 5, 11, block(plain)))
    const refused = await raw.next('415 comes', ({ streamId }) => streamId === 11)
    expect(refused.payload.toString('latin1')).toContain('415')
    await expectServed(rls)
  })

  test('that is too large is refused at the first excess byte', async () => {
    const rls = await startTestRls(config)
    const raw = await rawClient(rls.port)
    raw.send(frame(types.headers, 4, 1, requestBlock))
    for (let part = 0; part < 5; part++) raw.send(frame(types.data, 0, 1, Buffer.alloc(16_384)))
    expect(await raw.trailersOf(1)).toContain('grpc-status\x018')
    expect(await raw.resetOf(1)).toBe(errors.none)
    const announced = Buffer.concat([Buffer.from([0]), uint32(100_000_000), Buffer.alloc(10)])
    raw.send(call(3, announced))
    expect(await raw.trailersOf(3)).toContain('grpc-status\x018')
    await expectServed(rls)
  })

  test('waits for the client’s window, and no longer than it takes', async () => {
    const rls = await startTestRls(config)
    const raw = await rawClient(rls.port)
    raw.send(frame(types.settings, 0, 0, Buffer.concat([Buffer.from([0, 4]), uint32(1)])))
    raw.send(call(1, body))
    const first = await raw.next('a byte comes', ({ type }) => type === types.data)
    expect(first.payload).toHaveLength(1)
    raw.send(frame(types.windowUpdate, 0, 1, uint32(1_000)))
    expect(await raw.trailersOf(1)).toContain('grpc-status\x010')
  })
})

describe('a client that', () => {
  test('resets its calls as fast as it can is sent away, and others are served', async () => {
    const rls = await startTestRls(config)
    const raw = await rawClient(rls.port)
    for (let round = 0; round < 30; round++) {
      const parts = Array.from({ length: 500 }, (_, at) => {
        const id = (round * 500 + at) * 2 + 1
        return Buffer.concat([
          frame(types.headers, 4, id, requestBlock),
          frame(types.reset, 0, id, uint32(8)),
        ])
      })
      raw.send(...parts)
    }
    expect(await raw.goneWith()).toBe(errors.calm)
    await raw.untilClosed()
    await expectServed(rls)
  })

  test('makes the server reset its calls is disconnected as well', async () => {
    const rls = await startTestRls(config)
    const raw = await rawClient(rls.port)
    for (let round = 0; round < 30; round++) {
      const parts = Array.from({ length: 500 }, (_, at) => {
        const id = (round * 500 + at) * 2 + 1
        return Buffer.concat([
          frame(types.headers, 4, id, requestBlock),
          frame(types.windowUpdate, 0, id, uint32(0)),
        ])
      })
      raw.send(...parts)
    }
    expect(await raw.goneWith()).toBe(errors.calm)
    await expectServed(rls)
  })

  test.each([
    ['pings', () => frame(types.ping, 0, 0, Buffer.alloc(8))],
    ['settings', () => frame(types.settings, 0, 0)],
    ['priorities', () => frame(types.priority, 0, 1, Buffer.alloc(5))],
    ['unknown frames', () => frame(77, 0, 0)],
  ])('floods with %s is sent away', async (_, make) => {
    const rls = await startTestRls(config)
    const raw = await rawClient(rls.port)
    const thousand = Buffer.concat(Array.from({ length: 1_000 }, make))
    for (let round = 0; round < 15; round++) raw.send(thousand)
    expect(await raw.goneWith()).toBe(errors.calm)
    await expectServed(rls)
  })

  test('floods with empty data is sent away', async () => {
    const rls = await startTestRls(config)
    const raw = await rawClient(rls.port)
    raw.send(frame(types.headers, 4, 1, requestBlock))
    const thousand = Buffer.concat(Array.from({ length: 1_000 }, () => frame(types.data, 0, 1)))
    for (let round = 0; round < 15; round++) raw.send(thousand)
    expect(await raw.goneWith()).toBe(errors.calm)
    await expectServed(rls)
  })

  test('never ends its headers is sent away', async () => {
    const rls = await startTestRls(config)
    const raw = await rawClient(rls.port)
    raw.send(frame(types.headers, 0, 1, requestBlock))
    for (let round = 0; round < 20; round++) {
      raw.send(frame(types.continuation, 0, 1, block([['x', 'y'.repeat(1_000)]])))
    }
    expect(await raw.goneWith()).toBe(errors.calm)
    const empty = await rawClient(rls.port)
    empty.send(frame(types.headers, 0, 1, requestBlock))
    for (let round = 0; round < 20; round++) empty.send(frame(types.continuation, 0, 1))
    expect(await empty.goneWith()).toBe(errors.calm)
    await expectServed(rls)
  })

  test('sends a header bomb gets its call reset', async () => {
    const rls = await startTestRls(config)
    const raw = await rawClient(rls.port)
    const large = Buffer.concat([
      Buffer.from([0x40, 1]),
      Buffer.from('x'),
      Buffer.from([127, 0x81, 0x1e]),
      Buffer.alloc(3_968, 0x79),
    ])
    const references = Buffer.alloc(10_000, 0xbe)
    raw.send(frame(types.headers, 5, 1, Buffer.concat([requestBlock, large, references])))
    expect(await raw.resetOf(1)).toBe(errors.calm)
    raw.send(call(3, body))
    expect(await raw.trailersOf(3)).toContain('grpc-status\x010')
  })

  test('opens more calls than it may gets them refused, and may come again', async () => {
    const rls = await startTestRls(config, { streamsMax: 4 })
    const raw = await rawClient(rls.port)
    for (const id of [1, 3, 5, 7, 9]) raw.send(frame(types.headers, 4, id, requestBlock))
    expect(await raw.resetOf(9)).toBe(errors.refused)
    raw.send(frame(types.data, 1, 1, body))
    expect(await raw.trailersOf(1)).toContain('grpc-status\x010')
    raw.send(call(11, body))
    expect(await raw.trailersOf(11)).toContain('grpc-status\x010')
  })

  test('reads nothing is not read from, and does not fill the memory', async () => {
    const rls = await startTestRls(config)
    const raw = await rawClient(rls.port)
    raw.send(frame(types.settings, 0, 0, Buffer.concat([Buffer.from([0, 4]), uint32(1 << 30)])))
    raw.send(frame(types.windowUpdate, 0, 0, uint32(1 << 30)))
    raw.socket.pause()
    let id = 1
    const isStuck = () => {
      for (let count = 0; count < 1_000; count++, id += 2) raw.send(call(id, body))
      return raw.socket.writableLength > 8_388_608
    }
    const before = process.memoryUsage().arrayBuffers
    await until('the server reads no more', isStuck)
    await expectServed(rls)
    // Our part of the window also includes bytes that the client has not sent yet.
    const grown = process.memoryUsage().arrayBuffers - before - raw.socket.writableLength
    expect(grown).toBeLessThan(64 * 1_048_576)
    raw.socket.destroy()
  })

  test('speaks something else is closed', async () => {
    const rls = await startTestRls(config)
    const raw = await rawClient(rls.port, false)
    raw.send(Buffer.from('GET / HTTP/1.1\r\nhost: x\r\n\r\n'))
    await raw.untilClosed()
    await expectServed(rls)
  })
})

describe('a frame that breaks the rules ends its connection:', () => {
  const headers = frame(types.headers, 4, 1, requestBlock)
  test.each([
    ['data of stream 0', errors.protocol, [frame(types.data, 0, 0, body)]],
    ['data of a stream that never was', errors.protocol, [frame(types.data, 0, 5, body)]],
    ['headers of an even stream', errors.protocol, [frame(types.headers, 5, 2, requestBlock)]],
    ['a push', errors.protocol, [frame(types.pushPromise, 4, 1, Buffer.alloc(8))]],
    ['a continuation of nothing', errors.protocol, [frame(types.continuation, 4, 1, requestBlock)]],
    ['padding longer than its frame', errors.protocol, [headers, frame(0, 8, 1, Buffer.from([9]))]],
    ['a ping of 7 bytes', errors.frameSize, [frame(types.ping, 0, 0, Buffer.alloc(7))]],
    ['settings of 5 bytes', errors.frameSize, [frame(types.settings, 0, 0, Buffer.alloc(5))]],
    ['a frame of 16,385 bytes', errors.frameSize, [frame(types.data, 0, 1, Buffer.alloc(16_385))]],
    ['a window of 2^31', errors.flowControl, [frame(types.windowUpdate, 0, 0, uint32(0x7fffffff))]],
    ['an index of no field', errors.compression, [frame(1, 5, 1, Buffer.from([0xff, 0x7f]))]],
    [
      'a table that is too large',
      errors.compression,
      [frame(1, 5, 1, Buffer.from([0x3f, 0xe2, 0x3f]))],
    ],
  ])('%s', async (_, code, frames) => {
    const rls = await startTestRls(config)
    const raw = await rawClient(rls.port)
    raw.send(...frames)
    expect(await raw.goneWith()).toBe(code)
    await raw.untilClosed()
    await expectServed(rls)
  })
})
