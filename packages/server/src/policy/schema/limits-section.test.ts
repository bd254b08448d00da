import { describe, expect, test } from 'vitest'
import { readPolicy } from '../read-policy.ts'

function messages(limit: string): readonly string[] {
  const result = readPolicy(`limits: [{ name: a, limit: 5, ${limit} }]`, 'test.yaml')
  return result.ok ? [] : result.problems.map(({ message }) => message)
}

describe('a limit for descriptors of Envoy', () => {
  test.each([
    'per: 1s, key: domain, otherwise: skip',
    'per: 1s, key: { descriptor: user }, otherwise: deny',
    'per: 1s, key: [{ descriptor: user }, domain], otherwise: user',
    'per: 1s, key: everyone, match: { domain: shop }',
    'per: 1s, key: everyone, match: { domain: [shop, blog], descriptor: { route: [/a, /b] } }',
    'per: 1s, key: everyone, match: { descriptor: { "x y": "*", retries: 3 } }',
    'per: 1s, key: everyone, cost: [{ match: { descriptor: { size: large } }, cost: 5 }]',
  ])('is valid with %s', (limit) => expect(messages(limit)).toEqual([]))

  test.each([
    [
      'per: 1s, key: { descriptor: user }',
      'limits[0].otherwise: is missing; allowed: deny, skip or another key',
    ],
    ['per: 1s, key: domain', 'limits[0].otherwise: is missing; allowed: deny, skip or'],
    ['per: 1s, key: { descriptor: "" }, otherwise: skip', 'limits[0].key.descriptor: '],
    [
      'per: 1s, key: everyone, match: { domain: {} }',
      'limits[0].match.domain: a mapping is not allowed; allowed: a domain, or a list of domains',
    ],
    [
      'per: 1s, key: everyone, match: { descriptors: {} }',
      'limits[0].match.descriptors: is not known; did you mean descriptor?',
    ],
    [
      'per: 1s, key: everyone, match: { descriptor: { route: {} } }',
      'limits[0].match.descriptor.route: a mapping is not allowed; allowed: a value, a list of',
    ],
    [
      'algorithm: concurrency, ttl: 1s, key: everyone, match: { domain: shop }',
      'limits[0].match: a descriptor is not allowed; allowed: none with concurrency, because',
    ],
    [
      'algorithm: concurrency, ttl: 1s, key: { descriptor: user }, otherwise: skip',
      'limits[0].key: a descriptor is not allowed; allowed: none with concurrency, because',
    ],
  ])('is refused with %s', (limit, message) => {
    expect(messages(limit).join('\n')).toContain(message)
  })
})

test('an unknown kind of key is refused with the known ones', () => {
  const result = readPolicy(
    'limits:\n  - { name: a, key: { cookie: x }, limit: 5, per: 1s }\n',
    'test.yaml',
  )
  expect(result.ok ? [] : result.problems.map(({ message }) => message)).toEqual([
    'test.yaml:2:23 limits[0].key.cookie: is not known; allowed: header, claim, descriptor, ip',
  ])
})
