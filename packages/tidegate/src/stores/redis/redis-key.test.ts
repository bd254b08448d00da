import { hash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { fc } from '../../../../../test/support/fast-check.ts'
import { RedisKeys, redisKey } from './redis-key.ts'

const keys = new RedisKeys('tg')

const keyOf = (name: string, key: string) => keys.of(name, 'tokenBucket', key)

/** The prefix and a digest in characters that mean nothing to Redis. */
const KEY = /^tg[A-Za-z0-9_-]{12}$/

const strange = [
  '',
  ' ',
  ':',
  '{',
  '}',
  '{}',
  '{tag}',
  '{tag}:1',
  'a{b}c',
  '\0',
  '\0\0',
  'a\0',
  '\r\n',
  'DEL x\r\n',
  '*1\r\n$4\r\nPING\r\n',
  '*',
  '?',
  '[a-z]',
  'é',
  'e\u0301',
  '世界',
  '🌍',
  '\ud800',
  '\ud801',
  '\udc00',
  'a\ud800',
  '\ufffd',
  '\ufffd\ufffd\ufffd',
  'x'.repeat(65_536),
  'x'.repeat(65_537),
  '{'.repeat(65_536),
]

describe('the key of a counter', () => {
  it('separates what is joined differently', () => {
    expect(keyOf('a:b', 'c')).not.toBe(keyOf('a', 'b:c'))
    expect(keyOf('a', 'bc')).not.toBe(keyOf('ab', 'c'))
    expect(keys.of('a', 'tokenBucket', 'b')).not.toBe(keys.of('a', 'slidingLog', 'b'))
  })

  it('is short and plain whatever the client sends, and never the same', () => {
    const made = strange.map((text) => keyOf('name', text))
    for (const key of made) expect(key).toMatch(KEY)
    expect(new Set(made).size).toBe(strange.length)
  })

  it('is short and plain for any text of UTF-16 code units', () => {
    const anyText = fc
      .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 100 })
      .map((units) => String.fromCharCode(...units))
    fc.assert(
      fc.property(anyText, anyText, (one, other) => {
        expect(keyOf('name', one)).toMatch(KEY)
        expect(keyOf('name', one) === keyOf('name', other)).toBe(one === other)
      }),
      { numRuns: 10_000 },
    )
  })

  it('is made of the UTF-16 code units of a text that is not well formed', () => {
    const bytes = Buffer.from('\uffffone\ud800', 'utf16le')
    expect(redisKey('tg', 'one\ud800')).toBe(`tg${hash('sha1', bytes, 'base64url').slice(0, 12)}`)
  })

  it('is the same again after many others, and in another process', () => {
    const before = keyOf('name', 'key')
    for (let at = 0; at < 100_000; at++) keyOf('many', `${at}`)
    expect(keyOf('name', 'key')).toBe(before)
    expect(new RedisKeys('tg').of('name', 'tokenBucket', 'key')).toBe(before)
  })

  it('is kept from the second time on, and not the first', () => {
    const own = new RedisKeys('tg')
    const scope = own.scope('name', 'tokenBucket')
    const askForAll = () => {
      for (let at = 0; at < 10_000; at++) own.of('name', 'tokenBucket', `user:${at}`)
    }
    askForAll()
    expect(scope.young.size).toBe(0)
    askForAll()
    // A few of them share their place with too many others.
    expect(scope.young.size).toBeGreaterThan(9_950)
  })

  it('begins with the prefix', () => {
    expect(new RedisKeys('app:limits.').of('name', 'tokenBucket', 'key')).toMatch(/^app:limits\./)
  })

  it('differs for 200,000 different counters', () => {
    const [names, perName] = [200, 1_000]
    const made = new Set<string>()
    for (let name = 0; name < names; name++) {
      // Digits of one run into those of the other: 1 and 11, 11 and 1.
      for (let key = 0; key < perName; key++) made.add(keyOf(`${name}`, `${key}`))
    }
    expect(made.size).toBe(names * perName)
  })
})

describe('the slots of a cluster', () => {
  it('are computed here as the specification of Redis Cluster tells', () => {
    expect(crc16('123456789')).toBe(0x31c3)
  })

  it('get equally many of the keys', () => {
    const [slots, count] = [16_384, 100_000]
    const counts = new Uint32Array(slots)
    for (let at = 0; at < count; at++) {
      const slot = crc16(keyOf('api', `user:${at}`)) % slots
      counts[slot] = (counts[slot] ?? 0) + 1
    }
    const expected = count / slots
    const chiSquare = counts.reduce((sum, one) => sum + (one - expected) ** 2 / expected, 0)
    // Of 16,383 degrees of freedom: mean 16,383, standard deviation 181. Five of them either way.
    expect(Math.abs(chiSquare - (slots - 1))).toBeLessThan(5 * Math.sqrt(2 * (slots - 1)))
  })
})

/** CRC16/XMODEM. */
function crc16(text: string): number {
  let crc = 0
  for (const byte of Buffer.from(text)) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff
  }
  return crc
}
