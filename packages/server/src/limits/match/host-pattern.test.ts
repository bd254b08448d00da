import { describe, expect, test } from 'vitest'
import { parsePolicy } from '../../policy/read-policy.ts'
import { canonicalHost, hostMatcher } from './host-pattern.ts'

function read(host: string) {
  return parsePolicy({
    upstreams: { a: { targets: ['http://127.0.0.1:1'] } },
    routes: [{ match: { host }, upstream: 'a' }],
    limits: [],
  })
}

function isFor(pattern: string, host: string): boolean {
  const result = read(pattern)
  if (!result.ok) throw new Error(result.problems.map(({ message }) => message).join('\n'))
  return hostMatcher(result.document.routes[0]?.match.host ?? '')(canonicalHost(host))
}

describe('the host of a route', () => {
  test.each([
    ['*.example.com', 'a.example.com'],
    ['*.example.com', 'a.b.example.com'],
    ['*.example.com', 'A.Example.COM:8443'],
    ['*.example.com', 'a.example.com.'],
    ['*.example.com', 'a.example.com.:80'],
    ['*.EXAMPLE.com.', 'a.example.com'],
    ['*.bücher.example', 'a.xn--bcher-kva.example'],
    ['bücher.example', 'XN--BCHER-KVA.example:1'],
    ['api.example.com', 'API.example.com.:443'],
    ['my_service', 'my_service:8080'],
    ['127.0.0.1', '127.0.0.1:80'],
    ['[2001:DB8::1]', '[2001:db8::1]:80'],
  ])('%s is for %s', (pattern, host) => expect(isFor(pattern, host)).toBe(true))

  test.each([
    ['*.example.com', 'example.com'],
    ['*.example.com', '.example.com'],
    ['*.example.com', 'aexample.com'],
    ['*.example.com', 'a.example.com.evil'],
    ['*.example.com', 'a.example.org'],
    ['*.example.com', ''],
    ['example.com', 'a.example.com'],
    ['127.0.0.1', '127.0.0.10'],
  ])('%s is not for %s', (pattern, host) => expect(isFor(pattern, host)).toBe(false))

  test.each([
    ...['', '*', '*.', '.', '**.example.com', 'www.*', 'a.*.example.com', '*example.com'],
    ...['example.com:8080', '*.example.com:443', 'http://example.com', 'example.com/x', 'a b'],
    ...['a..b', '.example.com', '-a.example.com', '~^www', 'a,b', '::1', 'x'.repeat(256)],
    ...['ex\u0000.com', '\ud800.example.com'],
  ])('%j is refused', (pattern) => {
    const result = read(pattern)
    expect(result.ok ? '' : result.problems.map(({ message }) => message).join('\n')).toContain(
      'allowed: a host such as api.example.com, or *.example.com for all names below it',
    )
  })
})
