import { createHash } from 'node:crypto'
import { expect, it } from 'vitest'
import { fc } from '../../../../../../test/support/fast-check.ts'
import { sha1, sha1InScript } from './sha1.ts'

const byNode = (data: Uint8Array | string) => createHash('sha1').update(data).digest('base64url')

it('is the digest that Node.js computes, for text', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 300 }), (text) => {
      expect(sha1InScript(text)).toBe(byNode(text))
      expect(sha1(text)).toBe(byNode(text))
    }),
  )
})

it('is the digest that Node.js computes, for bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      expect(sha1InScript(bytes)).toBe(byNode(bytes))
    }),
  )
})

it.each([0, 1, 54, 55, 56, 63, 64, 65, 119, 120, 128, 10_000])('pads %i bytes', (length) => {
  const text = 'x'.repeat(length)
  expect(sha1InScript(text)).toBe(byNode(text))
})
