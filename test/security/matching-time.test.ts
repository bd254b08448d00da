/**
 * The time to read hostile requests grows linearly with their length; quadratic time would be 16
 * times as long for four times the length. Two lengths are compared, never a time with a fixed
 * bound.
 */

import { describe, expect, test } from 'vitest'
import { canonicalTarget } from '../../packages/server/src/gateway/canonical-path.ts'
import { cleanHead } from '../../packages/server/src/gateway/request-head.ts'
import { ReservedHeaders } from '../../packages/server/src/gateway/reserved-headers.ts'
import { PathPatterns } from '../../packages/server/src/limits/match/path-pattern.ts'

const SHORT = 2_048
const LONG = 4 * SHORT

/** Between 4, which is linear, and 16, which is quadratic. */
const GROWTH_MAX = 9

const ROUNDS = 9
const TIMES = 3

/** The fastest of several rounds, because other load only makes rounds slower. */
function timeOf(work: () => unknown): number {
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < ROUNDS; round += 1) {
    const start = process.hrtime.bigint()
    for (let time = 0; time < TIMES; time += 1) work()
    best = Math.min(best, Number(process.hrtime.bigint() - start))
  }
  return best
}

/** On a busy machine a comparison can fail by chance; quadratic time fails every one. */
const TRIES_MAX = 5

function growth(work: (length: number) => () => unknown): number {
  const [short, long] = [work(SHORT), work(LONG)]
  // The first run warms up the compiler.
  timeOf(short)
  let least = Number.POSITIVE_INFINITY
  for (let tries = 0; tries < TRIES_MAX && least >= GROWTH_MAX; tries += 1) {
    least = Math.min(least, timeOf(long) / timeOf(short))
  }
  return least
}

/** Texts that could make patterns, dots and encodings backtrack. */
const units = [
  ...['/', '//', '/a', '/a/', '/aa', '/.', '/./', '/..', '/../', '/a/..', '/...', '/..../', 'a'],
  ...['%61', '/%61', '/%2e', '/%2e%2e', '%3B', '/a%3Ab', '%e2%82%ac', '/v1', '/v1/v1/x', '/x/v1'],
  ...[';', '/;', '/a;b', '/a;b=c', '|', '/"', '/*', '/**', '/~', '/a/b/c/d/e/f/g/h'],
]

const filled = (unit: string, length: number) => `/${unit.repeat(length)}`.slice(0, length)

const patterns = [
  ...['/', '/**', '/*', '/**/a', '/a/**', '/**/a/**', '/**/a/**/a/**/a', '/*/*/*/*', '/v1/**/x'],
  ...[`/${'**/a/'.repeat(14)}b`, `/${'*/'.repeat(29)}x`, `/${'a/'.repeat(29)}b`, '/**/**/**/x'],
  ...Array.from({ length: 40 }, (_, at) => `/**/s${at}/**/t${at}/*`),
]

describe('the time for', () => {
  test.each(units)('a path of %j grows with its length, against all patterns', (unit) => {
    const book = new PathPatterns(patterns)
    const grown = growth((length) => {
      const path = filled(unit, length)
      return () => {
        book.read(path)
        for (let at = 0; at < patterns.length; at += 1) book.matches(at)
      }
    })
    expect(grown).toBeLessThan(GROWTH_MAX)
  })

  test.each(units)('the one spelling of a path of %j grows with its length', (unit) => {
    const grown = growth((length) => {
      const path = filled(unit, length)
      return () => canonicalTarget(path, 'a.example')
    })
    expect(grown).toBeLessThan(GROWTH_MAX)
  })

  const fields: readonly (readonly [name: string, field: (length: number) => string[]])[] = [
    ['TE with spaces', (length) => ['TE', `${' '.repeat(length)}x`]],
    ['TE with commas', (length) => ['TE', ', '.repeat(length / 2)]],
    ['TE with trailers', (length) => ['TE', 'trailers '.repeat(length / 9)]],
    ['a Host of dots', (length) => ['Host', '.'.repeat(length)]],
    ['a Host of colons', (length) => ['Host', `[${':'.repeat(length)}`]],
    ['a length of digits', (length) => ['Content-Length', '1'.repeat(length)]],
    ['a name of underscores', (length) => ['_'.repeat(length), 'x']],
    ['Connection of tokens', (length) => ['Connection', 'a,'.repeat(length / 2)]],
    ['Connection of spaces', (length) => ['Connection', `a${' '.repeat(length)},b`]],
    ['cookies', (length) => ['Cookie', 'a=b; '.repeat(length / 5)]],
  ]

  const owned = new ReservedHeaders(['x-api-key'])

  test.each(fields)('%s grows with its length', (_name, field) => {
    const grown = growth((length) => {
      const raw = field(length)
      return () => cleanHead(raw, owned)
    })
    expect(grown).toBeLessThan(GROWTH_MAX)
  })

  test('one pattern does not depend on where the path leads it', () => {
    const book = new PathPatterns([`/${'**/a/'.repeat(14)}b`])
    const time = (unit: string) => {
      const path = filled(unit, 8_192)
      return timeOf(() => {
        book.read(path)
        book.matches(0)
      })
    }
    time('/a')
    expect(time('/a')).toBeLessThan(time('/x') * GROWTH_MAX)
  })
})
