import fc from 'fast-check'
import { concurrency, fixedWindow, slidingLog, slidingWindow, tokenBucket } from 'tidegate'
import { describe, expect, test } from 'vitest'
import { MessageError } from '../link/bytes.ts'
import { decodeFrames, decodeMessage, encodeMessage, LINK_VERSION } from '../link/frames.ts'
import {
  decodeCall,
  decodeDecisions,
  encodeCall,
  encodeDecisions,
  type StoreCall,
} from './store-messages.ts'

const limits = [
  tokenBucket({ limit: 10, per: '1s', burst: 20 }),
  tokenBucket({ limit: 0, per: '1s' }),
  slidingWindow({ limit: 10, per: '1m' }),
  slidingLog({ limit: 10, per: '1h' }),
  fixedWindow({ limit: 10, per: '1d' }),
  fixedWindow({ limit: 2 ** 40, per: 'month', timeZone: 'Europe/Berlin' }),
  concurrency({ limit: 3, ttl: '10s' }),
]

const counters = limits.map((limit, at) => ({ name: `limit-${at}`, key: `key-${at}`, limit }))
const hold = { id: '!d0f7', ttlMs: 10_000 }

const calls: readonly StoreCall[] = [
  { kind: 'all', group: counters.map((counter) => ({ ...counter, cost: 2 })) },
  { kind: 'peek', group: counters.map((counter) => ({ ...counter, cost: 0 })) },
  {
    kind: 'partial',
    group: counters.map((counter) => ({
      ...counter,
      cost: 2 ** 53 - 1,
      hold,
      settles: { release: '!a', units: 7 },
    })),
  },
  {
    kind: 'adjust',
    group: counters.flatMap((counter) => [
      { ...counter, units: -3 },
      { ...counter, units: 4, release: 'a' },
      { ...counter, units: 0, renews: hold },
    ]),
  },
  { kind: 'reset', group: counters },
]

describe('a call of a store', () => {
  test.each(calls)('$kind is read as it was written', (call) => {
    expect(decodeCall(encodeCall(call))).toEqual(call)
  })

  test('of one charge takes less than 40 bytes', () => {
    const [limit] = limits
    if (limit === undefined) throw new Error('no limit')
    const charge = { name: 'api', key: 'x'.repeat(16), limit, cost: 1 }
    expect(encodeCall({ kind: 'all', group: [charge] }).length).toBeLessThan(40)
  })

  test('is refused if its numbers are not those of a limit', () => {
    const [limit] = limits
    if (limit?.algorithm !== 'tokenBucket') throw new Error('no bucket')
    const wrong = { name: 'a', key: 'a', limit: { ...limit, perMs: 0 }, cost: 1 }
    expect(() => decodeCall(encodeCall({ kind: 'all', group: [wrong] }))).toThrow(MessageError)
  })
})

test('decisions are read as they were written', () => {
  const decision = {
    ...{ allowed: false, limit: 10, remaining: 3, retryAfterMs: 70, resetAfterMs: 2 ** 45 },
    ...{ granted: 0, degraded: null },
    source: 'store' as const,
  }
  const never = { ...decision, retryAfterMs: Infinity }
  const unsure = { ...decision, degraded: { reason: 'unconfirmed', mode: 'open' } } as const
  const all = [decision, never, unsure, { ...decision, allowed: true, granted: 2 ** 53 - 1 }]
  expect(decodeDecisions(encodeDecisions(all), all.length)).toEqual(all)
  expect(() => decodeDecisions(encodeDecisions(all), 1)).toThrow(MessageError)
})

test('a message of another version is refused by its number', () => {
  const fingerprint = Buffer.alloc(8)
  const header = { version: LINK_VERSION + 1, from: 'eu', fingerprint }
  expect(() => decodeMessage(encodeMessage(header, []))).toThrow('version 2')
})

/** Bytes of any kind, and those of calls with a few of them changed. */
const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 200 }),
  fc
    .tuple(
      fc.constantFrom(...calls),
      fc.array(fc.tuple(fc.nat({ max: 300 }), fc.nat({ max: 255 })), { maxLength: 5 }),
      fc.nat({ max: 300 }),
    )
    .map(([call, changes, cut]) => {
      const written = Buffer.from(encodeCall(call))
      for (const [at, value] of changes) written[at % written.length] = value
      return written.subarray(0, Math.max(1, written.length - cut))
    }),
)

test('arbitrary bytes are read or refused, and nothing else', () => {
  fc.assert(
    fc.property(bytes, (sent) => {
      for (const decode of [decodeCall, decodeMessage, decodeFrames]) {
        try {
          decode(sent)
        } catch (error) {
          if (!(error instanceof MessageError)) throw error
        }
      }
    }),
  )
})
