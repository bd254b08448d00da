import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { hasForbidden, lineStart } from './fields.ts'

/** The rule, character by character. */
function hasForbiddenByRule(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 0x0d ? text[at + 1] !== '\n' : code === 0x0a && text[at - 1] !== '\r') return true
    const isText = (code >= 0x20 && code <= 0x7e) || code >= 0x80
    if (!isText && code !== 0x09 && code !== 0x0d && code !== 0x0a) return true
  }
  return false
}

describe('forbidden bytes of a head', () => {
  it('are those of the rule, in every order', () => {
    const piece = fc.oneof(
      fc.constantFrom('\r\n', '\r', '\n', '\t', ' ', 'a: b', '\0', '\x7f', '\x80', '\xff', '\x1f'),
      fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)),
    )
    const texts = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''))
    fc.assert(
      fc.property(texts, (text) => hasForbidden(text) === hasForbiddenByRule(text)),
      { numRuns: 2_000 },
    )
  })

  it('are found at the end of a large head', () => {
    const head = `${'name: value\r\n'.repeat(10_000)}last: `
    expect(hasForbidden(head)).toBe(false)
    expect(hasForbidden(`${head}\n`)).toBe(true)
    expect(hasForbidden(`${' '.repeat(200_000)}\0`)).toBe(true)
  })
})

describe('the beginning of a line', () => {
  it.each(['x-api-key', 'ETag', "!#$%&'*+-.^_`|~9", 'x'.repeat(100)])('has the name %s', (name) => {
    expect(lineStart(name)).toBe(`\r\n${name}: `)
    expect(lineStart(name)).toBe(`\r\n${name}: `)
  })

  it.each(['', ' ', 'a b', 'a:', 'a\r\nb', 'a\0', 'ä'])('refuses the name %j', (name) => {
    expect(lineStart(name)).toBeUndefined()
  })
})
