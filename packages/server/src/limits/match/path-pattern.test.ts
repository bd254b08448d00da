import { describe, expect, it, test } from 'vitest'
import { compilePattern, isPathPattern, PathPatterns } from './path-pattern.ts'
import { readPath } from './segment-texts.ts'

describe('a pattern', () => {
  test.each([
    ['/', '/', true],
    ['/', '/a', false],
    ['/v1', '/v1', true],
    ['/v1', '/v1/', true],
    ['/v1', '//v1', true],
    ['/v1', '/v1/a', false],
    ['/v1', '/v12', false],
    ['/v1', '/V1', false],
    ['/v1', '/', false],
    ['/v1/*', '/v1/a', true],
    ['/v1/*', '/v1/a/', true],
    ['/v1/*', '/v1', false],
    ['/v1/*', '/v1/', false],
    ['/v1/*', '/v1/a/b', false],
    ['/*/items', '/v1/items', true],
    ['/*/items', '/items', false],
    ['/v1/**', '/v1', true],
    ['/v1/**', '/v1/', true],
    ['/v1/**', '/v1/a/b/c', true],
    ['/v1/**', '/v2/a', false],
    ['/**', '/', true],
    ['/**', '/a/b', true],
    ['/**/admin', '/admin', true],
    ['/**/admin', '/a/b/admin', true],
    ['/**/admin', '/a/admin/b', false],
    ['/a/**/b', '/a/b', true],
    ['/a/**/b', '/a/x/b/y/b', true],
    ['/a/**/b', '/a/x/b/y', false],
    ['/**/a/*/b/**', '/x/a/a/y/b/z', true],
    ['/**/a/*/b/**', '/x/a/b/y/a', false],
    ['/**/**/a', '/x/y/a', true],
    ['/a/*/**', '/a', false],
    ['/a/*/**', '/a/x', true],
    ['/**/*', '/', false],
    ['/**/*', '/a', true],
    ['/a:b', '/a%3Ab', true],
    ['/a%3Ab', '/a:b', false],
    ['/a:b', '/a%3A%3Ab', false],
    ['/a:b', '/a%3A', false],
    ['/a/**', '/a;x', true],
    ['/a/**', '/a;x=y;z/b', true],
    ['/a/b', '/a;x/b;y', true],
    ['/a/b', '/a%3Bx/b%3by', true],
    ['/a/b', '/a;x;b', false],
    ['/a/b', '/;x/a/b', true],
    ['/a', '/ab;x', false],
    ['/caf%C3%A9', '/caf%C3%A9', true],
    ['/constructor', '/constructor', true],
    ['/*', '/__proto__', true],
  ])('%s and the path %s: %s', (pattern, path, expected) => {
    expect(compilePattern(pattern)(path)).toBe(expected)
  })

  it('says the same as a plain search through all ways to read it', () => {
    const elements = ['a', 'b', '*', '**']
    const patterns = sequences(elements, 4).map((list) => `/${list.join('/')}`)
    const paths = sequences(['a', 'b', 'c'], 4).map((list) => `/${list.join('/')}`)
    const all = new PathPatterns(patterns)
    for (const path of paths) {
      all.read(path)
      for (const [at, pattern] of patterns.entries()) {
        const expected = isMatch(pattern.slice(1).split('/'), path.slice(1).split('/'))
        expect(all.matches(at), `${pattern} ${path}`).toBe(expected)
      }
    }
  })

  it('says the same of long paths, however their segments are written', () => {
    const elements = ['a', 'b:b', '*', '**']
    const patterns = sequences(elements, 4).map((list) => `/${list.join('/')}`)
    const all = new PathPatterns(patterns)
    const ends = sequences(['a', 'b:b', 'c'], 2)
    const spelled = ['/', '//', ';x/', '/;/', ';/%3Bx/']
    for (const [turn, start] of ends.entries()) {
      for (const end of ends) {
        const middle = Array.from({ length: 29 + (turn % 8) }, () => 'x')
        const segments = [...start, ...middle, ...end]
        const separator = spelled[turn % spelled.length] as string
        const path = `/${segments.join(separator)}`
        all.read(turn % 2 === 0 ? path : path.replaceAll(':', '%3a'))
        for (const [at, pattern] of patterns.entries()) {
          const expected = isMatch(pattern.slice(1).split('/'), segments)
          expect(all.matches(at), `${pattern} ${path}`).toBe(expected)
        }
      }
    }
  })

  it('remembers nothing of the path before', () => {
    const matches = compilePattern('/a/b')
    expect(matches('/a/b')).toBe(true)
    expect(matches('/a')).toBe(false)
    expect(matches(`/${'a/'.repeat(5_000)}`)).toBe(false)
    expect(matches('/a/b')).toBe(true)
    const ends = compilePattern('/a/**/b')
    expect(ends(`/${'a/'.repeat(5_000)}b`)).toBe(true)
    expect(ends(`/${'a/'.repeat(5_000)}c`)).toBe(false)
    expect(ends(`/${'a/'.repeat(50)}b`)).toBe(true)
    expect(ends('/a')).toBe(false)
  })
})

describe('the field of a pattern', () => {
  test.each([
    '/',
    '/v1',
    '/v1/*',
    '/**',
    '/v1/a:b',
    '/a%20b',
    '/caf%C3%A9',
    `/a${'/*'.repeat(29)}`,
  ])('takes %s', (text) => expect(isPathPattern(text)).toBe(true))

  test.each([
    ...['', 'v1', '/v*', '/v1/', '//', '/a//b', '/a?b', '/a#b', '/a b', '/a/./b', '/a/../b'],
    ...['/***', '/a%2Fb'.toLowerCase(), '/%41', '/%3A', '/é', '/a\n', '/a\\b', '/(a+)+$/'],
    ...['/a;x', '/;x', '/a%3Bx'],
    ...[`/a${'/*'.repeat(30)}`, `/${'a'.repeat(1_024)}`],
  ])('refuses %j', (text) => expect(isPathPattern(text)).toBe(false))
})

describe('the time for a path', () => {
  it('grows with its length, not with the ways to read it', () => {
    const matches = compilePattern(`/${'**/a/*/'.repeat(9)}b`)
    const short = stepsPerRun(() => matches('/a'.repeat(4_096)))
    const long = stepsPerRun(() => matches('/a'.repeat(4_096 * 8)))
    expect(long / short).toBeLessThan(8 * 8)
  })
})

/** How long a run takes, as the fastest of several: others use the machine too. */
function stepsPerRun(run: () => void): number {
  const times = Array.from({ length: 30 }, () => {
    const start = performance.now()
    run()
    return performance.now() - start
  })
  return Math.min(...times)
}

function sequences(elements: readonly string[], lengthMax: number): string[][] {
  if (lengthMax === 0) return []
  const shorter = sequences(elements, lengthMax - 1)
  const full = shorter.filter(({ length }) => length === lengthMax - 1)
  const start = lengthMax === 1 ? [[]] : full
  const longer = start.flatMap((list) => elements.map((element) => [...list, element]))
  return [...shorter, ...longer]
}

function isMatch(pattern: readonly string[], path: readonly string[]): boolean {
  const [element, ...others] = pattern
  if (element === undefined) return path.length === 0
  const [segment, ...rest] = path
  if (element === '**') {
    return isMatch(others, path) || (segment !== undefined && isMatch(pattern, rest))
  }
  if (segment === undefined || (element !== '*' && element !== segment)) return false
  return isMatch(others, rest)
}

describe('the key of a path', () => {
  const paths = [
    ...['/a', '/a/', '//a', '/a//', '/a;x', '/a;x=y;z', '/a%3B', '/a%3bx', '/a;/', '/a%3Bx/;y'],
    ...['/a:b', '/a%3Ab', '/a%3ab', '/a%3Ab%3Bx', '/a%3Ab/', '/a%253Ab', '/a%25', '/a%2'],
    ...['/a/b', '/a;x/b', '/a%3Bx/b;y', '/a/%3Bx/b', '/a/;/b/', '/', '//', '/;x', '/%3B'],
    ...['/a%40%21%24%26%27%28%29%2A%2B%2C%3D', "/a@!$&'()*+,=", '/%C3%A9', '/%C3%A9;x', '/A'],
  ]

  test.each(paths)('%s is the same for those that match its pattern, and no others', (path) => {
    const matches = compilePattern(readPath(path))
    for (const other of paths) {
      expect({ other, isSame: readPath(other) === readPath(path) }).toEqual({
        other,
        isSame: matches(other),
      })
    }
  })
})
