import { expect, test } from 'vitest'
import { escapeUnsafe, plainText } from './plain-text.ts'

test.for(['Grüße', 'x', '100 % – 日本', "it's <b>"])('%j is plain', (text) => {
  expect(plainText(100).safeParse(text).success).toBe(true)
  expect(escapeUnsafe(text)).toBe(text)
})

test.for([
  '',
  ' ',
  'a\nb',
  'a\u0000',
  'a\u001b[2J',
  'a\u009b',
  'a\u202eb',
  'a\u2066b',
  'a\u200bb',
  'a\ufeff',
  'a\u2028b',
  'a\u{e0041}',
])('%j is refused', (text) => {
  expect(plainText(100).safeParse(text).success).toBe(false)
})

test('escapes are those of JSON, and line breaks stay', () => {
  expect(escapeUnsafe('a\u001b[31m\nb\u202e')).toBe('a\\u001b[31m\nb\\u202e')
  const hostile = { name: 'a\u202e\u{e0041}\u0007' }
  expect(JSON.parse(escapeUnsafe(JSON.stringify(hostile, null, 2)))).toEqual(hostile)
})
