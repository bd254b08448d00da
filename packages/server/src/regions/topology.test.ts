import { describe, expect, test } from 'vitest'
import { createTopology, keyDigest } from './topology.ts'

const list = (shares: Readonly<Record<string, number>>) => ({
  list: Object.fromEntries(
    Object.entries(shares).map(([name, share]) => [name, { endpoint: `${name}:1`, share }]),
  ),
})

const digests = Array.from({ length: 20_000 }, (_, at) => keyDigest('limit', `key ${at}`))

function homes(shares: Readonly<Record<string, number>>): readonly string[] {
  const topology = createTopology(Object.keys(shares)[0] ?? '', list(shares))
  return digests.map((digest) => topology.homeOf(digest))
}

describe('the home of a key', () => {
  test('is the same for every region and every order of the list', () => {
    const reversed = createTopology('us', list({ us: 1, eu: 1, ap: 1 }))
    expect(digests.map((digest) => reversed.homeOf(digest))).toEqual(homes({ ap: 1, eu: 1, us: 1 }))
  })

  test('is in a region as often as its share', () => {
    const found = homes({ ap: 1, eu: 2, us: 5 })
    const part = (name: string) => found.filter((home) => home === name).length / found.length
    expect(part('ap')).toBeCloseTo(1 / 8, 1)
    expect(part('eu')).toBeCloseTo(2 / 8, 1)
    expect(part('us')).toBeCloseTo(5 / 8, 1)
  })

  test('moves to a new region only', () => {
    const before = homes({ ap: 1, eu: 1, us: 1 })
    const after = homes({ ap: 1, eu: 1, sa: 1, us: 1 })
    const moved = after.filter((home, at) => home !== before[at])
    expect(new Set(moved)).toEqual(new Set(['sa']))
    expect(moved.length / after.length).toBeCloseTo(1 / 4, 1)
  })
})

test('the fingerprint differs with names and shares, and not with endpoints', () => {
  const of = (shares: Readonly<Record<string, number>>) =>
    createTopology('a', list(shares)).fingerprint.toString('hex')
  expect(of({ a: 1, b: 1 })).toBe(of({ b: 1, a: 1 }))
  expect(of({ a: 1, b: 2 })).not.toBe(of({ a: 1, b: 1 }))
  expect(of({ a: 1, c: 1 })).not.toBe(of({ a: 1, b: 1 }))
})
