/** Random bytes and frames from a fixed seed cause only declared errors. */

import { expect, test } from 'vitest'
import { transports } from '../../../packages/server/src/rls/settings.ts'
import { HpackDecoder } from '../../../packages/server/src/rls/transport/http2/hpack/hpack-decoder.ts'
import { HpackError } from '../../../packages/server/src/rls/transport/http2/hpack/hpack-error.ts'
import { readRequest } from '../../../packages/server/src/rls/wire/decode-request.ts'
import { InvalidRequest } from '../../../packages/server/src/rls/wire/rate-limit-messages.ts'
import { type Random, seededRandom } from './random.ts'
import {
  call,
  frame,
  message,
  rateLimitRequest,
  rawClient,
  requestBlock,
  types,
  uint32,
} from './raw-http2.ts'
import { request } from './rls-client.ts'
import { startTestRls } from './rls-server.ts'

const SEED = 20_261_116

const config = `
domain: d
descriptors: [{ key: k, rate_limit: { unit: hour, requests_per_unit: 1000000 } }]
`

/** A copy with some of its bytes changed, or cut short. */
function mutated(bytes: Buffer, random: Random): Buffer {
  const copy = Buffer.from(bytes)
  for (let count = random.below(4); count >= 0; count--) {
    copy[random.below(copy.length)] = random.below(256)
  }
  return random.below(4) === 0 ? copy.subarray(0, random.below(copy.length)) : copy
}

test('header blocks: a block is decoded or refused', () => {
  const random = seededRandom(SEED)
  let refused = 0
  for (let round = 0; round < 20_000; round++) {
    const bytes =
      random.below(2) === 0 ? mutated(requestBlock, random) : random.bytes(random.below(200))
    try {
      new HpackDecoder().decode(bytes, () => undefined)
    } catch (error) {
      expect(error).toBeInstanceOf(HpackError)
      refused++
    }
  }
  expect(refused).toBeGreaterThan(1_000)
})

test('requests: a message is read or refused', () => {
  const random = seededRandom(SEED)
  const valid = rateLimitRequest('domain', 'key', 'value')
  let refused = 0
  for (let round = 0; round < 50_000; round++) {
    const bytes = random.below(3) === 0 ? random.bytes(random.below(80)) : mutated(valid, random)
    try {
      readRequest(bytes, 0, bytes.length)
    } catch (error) {
      expect(error).toBeInstanceOf(InvalidRequest)
      refused++
    }
  }
  expect(refused).toBeGreaterThan(5_000)
})

function randomFrame(random: Random, streamId: number): Buffer {
  const body = message(rateLimitRequest('d', 'k', 'v'))
  const kinds = [
    () => call(streamId, body),
    () => call(streamId, mutated(body, random)),
    () => mutated(call(streamId, body), random),
    () => frame(types.headers, random.below(256), streamId, mutated(requestBlock, random)),
    () => frame(types.data, random.below(16), streamId, random.bytes(random.below(50))),
    () =>
      frame(random.below(12), random.below(256), random.below(20), random.bytes(random.below(40))),
    () => frame(types.settings, 0, 0, random.bytes(6 * random.below(4))),
    () => frame(types.windowUpdate, 0, random.below(20), uint32(random.below(2 ** 31))),
    () => frame(types.reset, 0, random.below(20), uint32(random.below(20))),
    () => frame(types.ping, random.below(2), 0, random.bytes(8)),
    () => random.bytes(random.below(64)),
  ]
  return random.pick(kinds)()
}

test.each(transports)(
  'frames over the transport %s: connections end, the service does not',
  async (transport) => {
    const random = seededRandom(SEED)
    const rls = await startTestRls(config, { transport })
    for (let connection = 0; connection < 200; connection++) {
      const raw = await rawClient(rls.port, random.below(20) > 0)
      for (let count = 0; count < 30; count++) raw.send(randomFrame(random, count * 2 + 1))
      raw.socket.end()
      if (connection % 20 === 0) raw.socket.destroy()
      else await Promise.race([raw.untilClosed(), rls.client.ask(request('d', ['k=v']))])
      raw.socket.destroy()
      expect((await rls.client.ask(request('d', ['k=v']))).overall_code).toBe('OK')
    }
    expect(rls.errors).toEqual([])
  },
)
