import { parseItem } from 'structured-headers'
import { describe, expect, it } from 'vitest'
import { parseKey } from './parse-key.ts'

describe('a key', () => {
  it.each([
    ['8e03978e-40d5-43dd-bc93-6894a57f9324', '8e03978e-40d5-43dd-bc93-6894a57f9324'],
    ['"8e03978e-40d5-43dd-bc93-6894a57f9324"', '8e03978e-40d5-43dd-bc93-6894a57f9324'],
    ['"with \\"quotes\\" and \\\\"', 'with "quotes" and \\'],
    ['"two words, one key"', 'two words, one key'],
    ['k'.repeat(255), 'k'.repeat(255)],
  ])('%.40s is read', (field, key) => {
    expect(parseKey(field)).toBe(key)
    if (field.startsWith('"')) expect(parseItem(field)[0]).toBe(key)
  })

  it.each(
    [
      ['', '""', ' ', 'a b', 'a,b', 'a;b', "it's", '`', 'a"b', '"a', 'a"', '"a"b"', '"a\\n"'],
      ['"a";b=1', '"a", "b"', 'caf\u00e9', '"caf\u00e9"', 'a\tb', 'a\u0000b', '"a\u007fb"'],
      ['k'.repeat(256), `"${'k'.repeat(256)}"`, 'k'.repeat(10_240), `"${'\\\\'.repeat(256)}"`],
    ].flat(),
  )('%.40j is refused', (field) => {
    expect(parseKey(field)).toBe(undefined)
  })
})
