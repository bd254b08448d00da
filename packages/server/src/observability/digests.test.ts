import { hash } from 'node:crypto'
import { expect, test } from 'vitest'
import { keyedDigest } from './digests.ts'

const ADDRESS = '203.0.113.7'

test('a digest depends on the secret and on the text', () => {
  const [one, other, again] = ['a', 'b', 'a'].map((secret) => keyedDigest(secret))
  expect(one?.(ADDRESS)).toMatch(/^hmac-sha256:[0-9a-f]{16}$/)
  expect(one?.(ADDRESS)).toBe(again?.(ADDRESS))
  expect(one?.(ADDRESS)).not.toBe(other?.(ADDRESS))
  expect(one?.(ADDRESS)).not.toBe(one?.('203.0.113.8'))
})

test('an address is not found by hashing all addresses without the secret', () => {
  const found = keyedDigest('a secret')(ADDRESS)
  expect(found).not.toContain(hash('sha256', ADDRESS, 'hex').slice(0, 16))
})

test('the digests that are kept stay bounded, and are the same after that', () => {
  const digest = keyedDigest('a secret')
  const before = digest(ADDRESS)
  for (let at = 0; at < 5_000; at++) digest(`client-${at}`)
  expect(digest(ADDRESS)).toBe(before)
})
