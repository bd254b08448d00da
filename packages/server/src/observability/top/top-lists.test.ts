import type { Decision } from 'tidegate'
import { expect, test } from 'vitest'
import { keyedDigest } from '../digests.ts'
import { TopLists } from './top-lists.ts'

const decision = { remaining: 0, limit: 1, degraded: null, source: 'store' } as const

const allowed = { ...decision, allowed: true } as unknown as Decision
const refused = { ...decision, allowed: false } as unknown as Decision

const digest = keyedDigest('a secret')

const MINUTE_MS = 60_000

test('a key that floods is first among a million others, within its error', () => {
  const lists = new TopLists({ digest, sampleEvery: 1 })
  for (let at = 0; at < 1_000_000; at++) {
    lists.add('api', at % 10 === 0 ? 'flood' : `key-${at}`, refused)
  }
  const { keys, total } = lists.read('refused', 'api', 1, true)
  const [first] = keys
  expect(first?.key).toBe('flood')
  expect(total).toBe(1_000_000)
  expect(first?.count).toBeGreaterThanOrEqual(100_000)
  expect((first?.count ?? 0) - (first?.error ?? 0)).toBeLessThanOrEqual(100_000)
})

test('a window of 5 minutes is kept for another 5', () => {
  let nowMs = 1_000
  const lists = new TopLists({ digest, now: () => nowMs, sampleEvery: 1 })
  const counts = () => lists.read('asked', undefined, 9, true).keys.map(({ count }) => count)
  lists.add('api', 'ada', allowed)
  nowMs += 5 * MINUTE_MS
  expect(counts()).toEqual([1])
  lists.add('api', 'ada', allowed)
  expect(counts()).toEqual([2])
  nowMs += 5 * MINUTE_MS
  expect(counts()).toEqual([1])
  nowMs += 20 * MINUTE_MS
  expect(counts()).toEqual([])
})

test('limits beyond the maximum share a list', () => {
  const lists = new TopLists({ digest, sampleEvery: 1 })
  for (let at = 0; at < 500; at++) lists.add(`limit-${at}`, 'ada', allowed)
  const names = lists.read('asked', undefined, 1_000, true).keys.map(({ limit }) => limit)
  expect(new Set(names).size).toBe(61)
  expect(names[0]).toBe('other')
})

test('digests depend on the secret', () => {
  const [one, other, again] = ['a', 'b', 'a'].map((secret) => {
    const lists = new TopLists({ digest: keyedDigest(secret) })
    lists.add('api', '203.0.113.7', refused)
    return lists.read('refused', 'api', 1, false).keys[0]?.key
  })
  expect(one).toMatch(/^hmac-sha256:/)
  expect(one).not.toBe(other)
  expect(one).toBe(again)
})

test('one in 64 decisions is counted as asked, for all', () => {
  const lists = new TopLists({ digest })
  for (let at = 0; at < 1_000_000; at++)
    lists.add('api', at % 4 === 0 ? 'often' : `k${at}`, allowed)
  const { keys, total } = lists.read('asked', 'api', 1, true)
  expect(total / 1_000_000).toBeCloseTo(1, 1)
  expect(keys[0]?.key).toBe('often')
  expect(((keys[0]?.count ?? 0) - (keys[0]?.error ?? 0)) / 250_000).toBeLessThan(1.1)
  expect((keys[0]?.count ?? 0) / 250_000).toBeGreaterThan(0.9)
})
