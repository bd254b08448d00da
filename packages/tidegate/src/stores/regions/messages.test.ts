import { describe, expect, test } from 'vitest'
import { fc } from '../../../../../test/support/fast-check.ts'
import { TidegateError } from '../../errors.ts'
import { stampText } from './hlc.ts'
import { answerStates, decodePartition, encodePartition } from './partition-messages.ts'
import { decodeShared, encodeShared } from './shared-messages.ts'

const whole = fc.maxSafeNat()
const parts = fc.nat(10_000)
const stamp = fc
  .record({ ms: fc.nat(2 ** 31), count: fc.nat(65_535) })
  .map((one) => stampText({ ms: one.ms * 1_024, count: one.count }))
const digest = fc.stringMatching(/^[A-Za-z0-9_-]{12}$/)

const entry = fc
  .record({
    region: fc.nat(15),
    incarnation: stamp,
    own: whole,
    stable: whole,
    maskVersion: whole,
    mask: fc.nat(2 ** 16 - 1),
  })
  .map((one) => ({ ...one, stable: Math.min(one.stable, one.own) }))

const shared = fc.record({
  isAnswer: fc.boolean(),
  exchange: whole,
  incarnation: stamp,
  rows: fc.array(
    fc.record({ key: digest, cell: whole, entries: fc.array(entry, { maxLength: 5 }) }),
    { maxLength: 5 },
  ),
})

const partition = fc.oneof(
  fc.record({
    kind: fc.constant('status' as const),
    incarnation: stamp,
    seen: stamp,
    epoch: whole,
    isConfirmed: fc.boolean(),
    demand: whole,
    share: parts,
    borrowed: fc.array(fc.record({ id: whole, parts }), { maxLength: 16 }),
  }),
  fc.record({
    kind: fc.constant('ask' as const),
    id: whole,
    sequence: whole,
    parts,
    isReturned: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant('answer' as const),
    id: whole,
    sequence: whole,
    state: fc.constantFrom(...answerStates),
    parts,
    ttlMs: fc.nat(86_400_000),
  }),
)

const formats = {
  shared: {
    message: shared,
    encode: encodeShared as (message: never) => Uint8Array,
    decode: decodeShared as (bytes: Uint8Array) => unknown,
  },
  partition: {
    message: partition,
    encode: encodePartition as (message: never) => Uint8Array,
    decode: decodePartition as (bytes: Uint8Array) => unknown,
  },
}

describe.each(Object.entries(formats))('messages of %s', (_name, { message, encode, decode }) => {
  test('are read as they were written', () => {
    fc.assert(
      fc.property(message, (one) => {
        expect(decode(encode(one as never))).toEqual(one)
      }),
    )
  })

  test('that are cut off are refused with the place', () => {
    fc.assert(
      fc.property(message, fc.double({ min: 0, max: 0.999, noNaN: true }), (one, part) => {
        const bytes = encode(one as never)
        const cut = bytes.subarray(0, Math.floor(bytes.length * part))
        expect(() => decode(cut)).toThrow(/^\w+\.[\w.]+ at byte \d+: got/)
      }),
    )
  })

  test('with bytes behind the end are refused', () => {
    fc.assert(
      fc.property(message, (one) => {
        expect(() => decode(Uint8Array.of(...encode(one as never), 0))).toThrow(
          /end of the message/,
        )
      }),
    )
  })

  test('of random or changed bytes are refused, or have one spelling', () => {
    const changed = fc.tuple(message, fc.nat(), fc.nat(255)).map(([one, at, byte]) => {
      const bytes = encode(one as never)
      bytes[at % bytes.length] = byte
      return bytes
    })
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), changed), (bytes) => {
        let decoded: unknown
        try {
          decoded = decode(bytes)
        } catch (error) {
          expect(error).toBeInstanceOf(TidegateError)
          return
        }
        // The list of incarnations may have another order, or entries that no row uses.
        const again = encode(decoded as never)
        expect(decode(again)).toEqual(decoded)
        expect(again.length).toBeLessThanOrEqual(bytes.length)
      }),
    )
  })
})

const SENT_MS = 1_800_000_000_000

test.each([
  { of: 'a window', bytes: 19, agesMs: [0] },
  { of: 'buckets that began within half an hour', bytes: 31, agesMs: [0, 7, 1_900_000] },
])('a row of three regions has at most $bytes bytes for $of', ({ bytes, agesMs }) => {
  const incarnation = stampText({ ms: SENT_MS, count: 0 })
  const rowsOf = (count: number) =>
    Array.from({ length: count }, (_, at) => ({
      key: `key${String(at).padStart(9, '0')}`,
      cell: SENT_MS,
      entries: [0, 1, 2].map((region) => {
        const ms = SENT_MS - (agesMs[at % agesMs.length] ?? 0) - (agesMs.length > 1 ? at : 0)
        const units = { own: 9_000, stable: 8_900, maskVersion: 2 ** 49, mask: 7 }
        return { region, incarnation: stampText({ ms, count: 0 }), ...units }
      }),
    }))
  const lengthOf = (count: number) =>
    encodeShared({ isAnswer: false, exchange: 1, incarnation, rows: rowsOf(count) }).length
  // From 50 rows on, buckets have more incarnations than are listed in front.
  expect((lengthOf(120) - lengthOf(60)) / 60).toBeLessThanOrEqual(bytes)
})
