import { describe, expect, test } from 'vitest'
import { parsePolicy } from '../policy/read-policy.ts'
import { plainName, ReservedHeaders, reservedHeaders } from './reserved-headers.ts'

const limit = { name: 'a', key: 'ip', limit: 1, per: '1s' }

function namesOf(policy: object): ReservedHeaders {
  const result = parsePolicy(policy)
  if (!result.ok) throw new Error(JSON.stringify(result.problems))
  return reservedHeaders(result.document)
}

describe('a name is owned', () => {
  const upstreams = { api: { targets: ['http://127.0.0.1:1'] } }
  test.each<[string, object]>([
    ['that is a key', { limits: [{ ...limit, key: { header: 'x-read' }, otherwise: 'skip' }] }],
    [
      'that is a part of a key',
      { limits: [{ ...limit, key: ['ip', { header: 'x-read' }], otherwise: 'skip' }] },
    ],
    [
      'that is a key where there is none',
      { limits: [{ ...limit, key: 'user', otherwise: { header: 'x-read' } }] },
    ],
    [
      'that is a key where there is none either',
      {
        limits: [
          { ...limit, key: 'user', otherwise: { key: 'apiKey', otherwise: { header: 'x-read' } } },
        ],
      },
    ],
    ['that is matched', { limits: [{ ...limit, match: { headers: { 'x-read': 'a' } } }] }],
    ['that says the cost', { limits: [{ ...limit, cost: { header: 'x-read', max: 5 } }] }],
    [
      'by which the cost is found',
      { limits: [{ ...limit, cost: [{ match: { headers: { 'X-Read': '*' } }, cost: 5 }] }] },
    ],
    [
      'that a route sets',
      { upstreams, routes: [{ upstream: 'api', requestHeaders: { set: { 'x-read': '1' } } }] },
    ],
    [
      'that a route removes',
      { upstreams, routes: [{ upstream: 'api', requestHeaders: { remove: ['x-read'] } }] },
    ],
  ])('%s', (_name, policy) => {
    expect(namesOf(policy).isAlias('x_read', 'x-read')).toBe(true)
    expect(namesOf(policy).isAlias('x-read', 'x-read')).toBe(false)
    expect(namesOf({}).has('x-read')).toBe(false)
  })

  test('and has one value if it is a key', () => {
    const key = { header: 'x-read' }
    const owned = namesOf({
      limits: [{ ...limit, key, otherwise: 'skip', match: { headers: { 'x-kind': 'a' } } }],
    })
    expect([owned.isKey('x-read'), owned.isKey('x-api-key')]).toEqual([true, true])
    expect(owned.isKey('x-kind')).toBe(false)
  })

  test('with the separators that the policy writes', () => {
    const owned = new ReservedHeaders(['x_tenant'])
    const isAlias = (name: string) => owned.isAlias(name, plainName(name))
    expect(isAlias('x_tenant')).toBe(false)
    expect(isAlias('x-tenant')).toBe(true)
    expect(isAlias('x.tenant')).toBe(true)
    expect(isAlias('xtenant')).toBe(false)
  })
})
