import { describe, expect, test } from 'vitest'
import { canonicalTarget } from './canonical-path.ts'

const HOST = 'api.example.com'
const REFUSED = 'refused'

/** How a path can be spelt, and which path that is. */
const spellings: readonly (readonly [spelling: string, path: string])[] = [
  ['/admin', '/admin'],
  ['//admin', '/admin'],
  ['///admin', '/admin'],
  ['/./admin', '/admin'],
  ['/././admin', '/admin'],
  ['/x/../admin', '/admin'],
  ['/x/y/../../admin', '/admin'],
  ['/../admin', '/admin'],
  ['/../../../admin', '/admin'],
  ['/x//../admin', '/admin'],
  ['/x/./../admin', '/admin'],
  ['/admin/x/..', '/admin/'],
  ['/admin/.', '/admin/'],
  ['/admin/./', '/admin/'],
  ['/admin//', '/admin/'],
  ['/admin/', '/admin/'],
  ['/%61dmin', '/admin'],
  ['/%61%64%6d%69%6e', '/admin'],
  ['/%61%64%6D%69%6E', '/admin'],
  ['/adm%69n', '/admin'],
  ['/%2e/admin', '/admin'],
  ['/%2E/admin', '/admin'],
  ['/x/%2e%2e/admin', '/admin'],
  ['/x/%2E%2e/admin', '/admin'],
  ['/x/.%2e/admin', '/admin'],
  ['/x/%2e./admin', '/admin'],
  ['/%2e%2e/admin', '/admin'],
  ['/%2e%2e/%2e%2e/admin', '/admin'],
  ['/%7eadmin', '/~admin'],
  ['/admin?x=/../y', '/admin'],
  ['/admin?%2f', '/admin'],
  ['http://api.example.com/admin', '/admin'],
  ['HTTP://API.EXAMPLE.COM/admin', '/admin'],
  ['http://api.example.com/x/../admin', '/admin'],
  ['https://api.example.com//admin', '/admin'],
  ['http://api.example.com', '/'],
  ['http://api.example.com?x', '/'],
  ['/Admin', '/Admin'],
  ['/ADMIN', '/ADMIN'],
  ['/admin;x=1', '/admin;x=1'],
  ['/admin%3bx', '/admin%3Bx'],
  ['/admin%20', '/admin%20'],
  ['/admin%25', '/admin%25'],
  ['/%2561dmin', '/%2561dmin'],
  ['/admin%c3%a9', '/admin%C3%A9'],
  ['/ad{m}in', '/ad%7Bm%7Din'],
  ['/ad"min', '/ad%22min'],
  ['/...', '/...'],
  ['/.admin', '/.admin'],
  ['/admin..', '/admin..'],
  ['/admin%2fx', REFUSED],
  ['/admin%2Fx', REFUSED],
  ['/x%2f..%2fadmin', REFUSED],
  ['/..%2fadmin', REFUSED],
  ['/x/..%5cadmin', REFUSED],
  ['/%5cadmin', REFUSED],
  ['/%5Cadmin', REFUSED],
  ['/x\\..\\admin', REFUSED],
  ['/\\admin', REFUSED],
  ['\\admin', REFUSED],
  ['/admin%00', REFUSED],
  ['/admin%0a', REFUSED],
  ['/admin%0d%0ax: y', REFUSED],
  ['/admin%7f', REFUSED],
  ['/admin%09', REFUSED],
  ['/admin\t', REFUSED],
  ['/ad min', REFUSED],
  ['/admin#x', REFUSED],
  ['/x#/../admin', REFUSED],
  ['/admin?x#y', REFUSED],
  ['/x/..;/admin', REFUSED],
  ['/x/..;y=z/admin', REFUSED],
  ['/;x/admin', REFUSED],
  ['/admin/;x', REFUSED],
  ['/%3bx/admin', REFUSED],
  ['/x/.;/admin', REFUSED],
  ['/x/..%3b/admin', REFUSED],
  ['/x/%2e%2e;/admin', REFUSED],
  ['/x/%2e%2e%3Bfoo/admin', REFUSED],
  ['/%', REFUSED],
  ['/%6', REFUSED],
  ['/%zz', REFUSED],
  ['/admin%', REFUSED],
  ['/%u0061dmin', REFUSED],
  ['/%c0%afadmin', REFUSED],
  ['/%c0%ae%c0%ae/admin', REFUSED],
  ['/%e0%80%afadmin', REFUSED],
  ['/%f0%80%80%afadmin', REFUSED],
  ['/%f8%80%80%80%afadmin', REFUSED],
  ['/%fc%80%80%80%80%afadmin', REFUSED],
  ['/\u00e4dmin', REFUSED],
  ['/admin?\u00e4', REFUSED],
  ['http://evil.example/admin', REFUSED],
  ['http://api.example.com:81/admin', REFUSED],
  ['http://evil@api.example.com/admin', REFUSED],
  ['http://api.example.com\\@evil/admin', REFUSED],
  ['ftp://api.example.com/admin', REFUSED],
  ['http:/admin', REFUSED],
  ['http:admin', REFUSED],
  ['admin', REFUSED],
  ['*', REFUSED],
  ['', REFUSED],
]

describe('canonicalTarget', () => {
  test.each(spellings)('reads %j as %s', (spelling, path) => {
    const target = canonicalTarget(spelling, HOST)
    expect(typeof target === 'string' ? REFUSED : target.path).toBe(path)
  })

  test('gives every canonical path back as it is', () => {
    for (const [, path] of spellings) {
      if (path === REFUSED) continue
      expect(canonicalTarget(path, HOST)).toEqual({ path, query: '' })
    }
  })

  test('leaves the query alone', () => {
    const query = '?a=%2e%2e%2f&b=//x/../y&c=;'
    expect(canonicalTarget(`/x${query}`, HOST)).toEqual({ path: '/x', query })
    expect(canonicalTarget(`//x${query}`, HOST)).toEqual({ path: '/x', query })
  })
})

test('a path has at most 1,000 segments, empty ones included', () => {
  expect(canonicalTarget('/a'.repeat(1_000), HOST)).toMatchObject({ path: '/a'.repeat(1_000) })
  expect(canonicalTarget('/a'.repeat(1_001), HOST)).toBe('the path has more than 1000 segments')
  expect(canonicalTarget('/'.repeat(1_001), HOST)).toBe('the path has more than 1000 segments')
  expect(canonicalTarget(`/a?${'/'.repeat(2_000)}`, HOST)).toMatchObject({ path: '/a' })
})
