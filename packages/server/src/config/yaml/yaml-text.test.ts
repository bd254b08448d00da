import { describe, expect, it, test } from 'vitest'
import { fc } from '../../../../../test/support/fast-check.ts'
import { readPolicy } from '../../policy/read-policy.ts'
import { parseYaml, YAML_BYTES_MAX } from './yaml-text.ts'

const prototypeNames = Object.getOwnPropertyNames(Object.prototype)

const refusal = (text: string) => {
  const result = parseYaml(text)
  return result.ok ? undefined : `${result.position.line}:${result.position.column} ${result.text}`
}

describe('refuses', () => {
  test.each([
    ['a: &x 1', '1:4 anchors (&name) are not allowed'],
    ['a: *x', '1:4 aliases (*name) are not allowed; write it out'],
    ['a: 1\nb: !!binary aGk=', '2:4 tags (!name) are not allowed; put a text in quotes'],
    ['a: !custom 1', '1:4 tags (!name) are not allowed; put a text in quotes'],
    ['%YAML 1.1\n---\na: 1', '1:1 directives (%NAME) are not allowed'],
    ['a: 1\n---\nb: 2', '2:1 only one document is allowed'],
    ['---\na: 1\n---\nb: 2', '3:1 only one document is allowed'],
    ['<<: { a: 1 }', '1:1 the name "<<" is not allowed'],
    ['a: 1\n__proto__: { b: 1 }', '2:1 the name "__proto__" is not allowed'],
    ['a: { constructor: { prototype: 1 } }', '1:6 the name "constructor" is not allowed'],
    ['"__proto__": 1', '1:1 the name "__proto__" is not allowed'],
    ['a: 1\nb: 2\na: 3', '3:1 duplicate name "a"'],
    ['{ a: 1, "a": 2 }', '1:9 duplicate name "a"'],
    ['a: \u0000', '1:4 control characters are not allowed'],
    ['\u001f&x', '1:1 control characters are not allowed'],
    [`a: ${'['.repeat(30)}`, '1:24 it is nested too deep'],
    ['- '.repeat(30), '1:41 it is nested too deep'],
    ['x'.repeat(YAML_BYTES_MAX + 1), '1:1 the file is too large; allowed: 262144 bytes'],
    ['é'.repeat(YAML_BYTES_MAX / 2 + 1), '1:1 the file is too large; allowed: 262144 bytes'],
  ])('%j', (text, expected) => {
    expect(refusal(text)).toBe(expected)
  })

  test.each(['a: [1', 'a: "x', 'a: b: c', '\ta: 1', '? [a]\n: 1', 'a: 1\n b: 2'])(
    'texts that are not YAML: %j',
    (text) => expect(refusal(text)).toMatch(/^\d+:\d+ \S/),
  )
})

describe('reads', () => {
  test.each([
    ['a: 1', { a: 1 }],
    ['---\na: 1\n...\n', { a: 1 }],
    ['a: |\n  &not an anchor\n  *nor an alias\n', { a: '&not an anchor\n*nor an alias\n' }],
    ['a: "*"', { a: '*' }],
    ['a: /v1/*', { a: '/v1/*' }],
    ['a: /v1/**', { a: '/v1/**' }],
    ['1: a', { 1: 'a' }],
    ['a: yes', { a: 'yes' }],
    ['a: 2026-12-01T00:00:00Z', { a: '2026-12-01T00:00:00Z' }],
    ['\ufeffa: 1', { a: 1 }],
    ['a: 1\r\nb: [x, y]\r\n', { a: 1, b: ['x', 'y'] }],
    ['', undefined],
  ])('%j', (text, expected) => {
    expect(parseYaml(text)).toMatchObject({ ok: true, value: expected })
  })
})

/** Each line is nine times the one before. */
const laughs = () =>
  Array.from(
    { length: 30 },
    (_, at) => `l${at}: &l${at} [${at === 0 ? 'ha' : `*l${at - 1}, `.repeat(9)}]`,
  ).join('\n')

/** As long as a policy may be. */
const filled = (unit: string) => unit.repeat(YAML_BYTES_MAX / unit.length)

const bombs: Readonly<Record<string, string>> = {
  'a billion laughs': laughs(),
  'open brackets': filled('['),
  'brackets and closed ones':
    filled('[').slice(0, YAML_BYTES_MAX / 2) + filled(']').slice(YAML_BYTES_MAX / 2),
  'open braces': filled('{a: '),
  'dashes in a line': filled('- '),
  'question marks': filled('? '),
  'many names': Array.from({ length: 29_000 }, (_, at) => `k${10_000 + at}: 1`)
    .join('\n')
    .slice(0, YAML_BYTES_MAX),
  'the same name': filled('a: 1\n'),
  'empty lines': filled('\n'),
  quotes: filled('"'),
  'wrong escapes': `"${filled('\\x')}`.slice(0, YAML_BYTES_MAX),
  tags: filled('!a '),
  anchors: filled('&a '),
  commas: `[${filled(',')}`.slice(0, YAML_BYTES_MAX),
  colons: filled(': '),
  comments: filled('#\n'),
  directives: filled('%a\n'),
  documents: filled('---\n'),
  'deeper and deeper': Array.from({ length: 700 }, (_, at) => `${' '.repeat(at)}a:`).join('\n'),
  'one long line': filled('a'),
  prototypes: filled('__proto__: {}\n'),
  'carriage returns': filled('\r'),
}

describe('a hostile file is refused in time:', () => {
  test.each(Object.entries(bombs))('%s', (_, text) => {
    const startMs = performance.now()
    const result = readPolicy(text, 'bomb.yaml')
    const tookMs = performance.now() - startMs
    expect(result.ok).toBe(false)
    // Most take a tenth of a second. A bomb that goes off takes minutes, or all memory.
    expect(tookMs).toBeLessThan(10_000)
    expect(Object.getOwnPropertyNames(Object.prototype)).toEqual(prototypeNames)
  })

  it('and whatever else is written there', () => {
    const pieces = fc.constantFrom(
      ...[
        'a',
        ':',
        ' ',
        '\n',
        '-',
        '?',
        '[',
        ']',
        '{',
        '}',
        ',',
        '"',
        "'",
        '|',
        '>',
        '#',
        '&',
        '*',
      ],
      ...[
        '!',
        '%',
        '---',
        '...',
        '\t',
        '\r',
        '\\',
        '<<',
        '__proto__',
        'limits',
        '\u2028',
        '\ud800',
      ],
    )
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 60 }), (list) => {
        const result = readPolicy(list.join(''), 'any.yaml')
        if (!result.ok) expect(result.problems.length).toBeGreaterThan(0)
        expect(({} as Record<string, unknown>).a).toBeUndefined()
      }),
      { numRuns: 2_000 },
    )
  })
})
