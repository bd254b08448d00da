import { describe, expect, it, test } from 'vitest'
import { fc } from '../../../../test/support/fast-check.ts'
import type { FallbackSection, KeySection } from '../policy/schema/limits-section.ts'
import { type FactsOptions, factsOf } from './enforcer-contract.ts'
import { planKey, readKey } from './key-plan.ts'

const settings = { region: 'eu-west-1', ipv6Prefix: 64 }

const keyOf = (key: KeySection, facts: FactsOptions, otherwise: FallbackSection = 'deny') =>
  readKey(planKey({ key, otherwise }, settings), factsOf(facts), 'free', '/v1/**')

const identity = {
  apiKey: 'key_1',
  user: 'ada',
  organisation: 'org_1',
  certificate: 'CN=x',
  claims: { sub: 'ada', seats: 3, admin: true, groups: ['a'], nested: {} },
}

describe('a key', () => {
  test.each<[KeySection, FactsOptions, string | undefined]>([
    ['apiKey', { identity }, 'key_1'],
    ['user', { identity }, 'ada'],
    ['organisation', { identity }, 'org_1'],
    ['certificate', { identity }, 'CN=x'],
    ['apiKey', {}, undefined],
    ['ip', { ip: '192.0.2.1' }, '192.0.2.1'],
    ['ip', { ip: '2001:db8:0:1:2:3:4:5' }, '2001:db8:0:1::/64'],
    ['ip', { ip: '::ffff:192.0.2.1' }, '192.0.2.1'],
    [{ ip: 48 }, { ip: '2001:db8:0:1:2:3:4:5' }, '2001:db8::/48'],
    ['ip', { ip: undefined }, undefined],
    ['path', { path: '/v1/a' }, '/v1/a'],
    ['path', { path: '/v1;x=1/a;y' }, '/v1/a'],
    ['path', { path: '/v1%3Bx=1/a%3by' }, '/v1/a'],
    ['path', { path: '/v1//a/' }, '/v1/a'],
    ['path', { path: '/' }, '/'],
    ['path', { path: '/a%3Ab%40%2A%25%C3%A9%253A' }, '/a:b@*%25%C3%A9%253A'],
    ['method', { method: 'POST' }, 'POST'],
    ['route', {}, '/v1/**'],
    ['region', {}, 'eu-west-1'],
    ['tier', {}, 'free'],
    ['everyone', {}, 'everyone'],
    [{ header: 'x-tenant' }, { headers: { 'x-tenant': 't1' } }, 't1'],
    [{ header: 'x-tenant' }, { headers: { 'x-tenant': '' } }, undefined],
    [{ header: 'x-tenant' }, {}, undefined],
    [{ claim: 'sub' }, { identity }, 'ada'],
    [{ claim: 'seats' }, { identity }, '3'],
    [{ claim: 'admin' }, { identity }, 'true'],
    [{ claim: 'groups' }, { identity }, undefined],
    [{ claim: 'nested' }, { identity }, undefined],
    [{ claim: 'toString' }, { identity }, undefined],
    [{ claim: '__proto__' }, { identity }, undefined],
    [['organisation', 'path'], { identity, path: '/a' }, '5:org_12:/a'],
    [['organisation', 'apiKey'], { identity: { apiKey: 'k' } }, undefined],
  ])('%j of %j', (key, facts, expected) => {
    expect(keyOf(key, facts)).toBe(expected)
  })

  it('of an address and a user agent has the digest of the latter', () => {
    const one = keyOf('ip+userAgent', { headers: { 'user-agent': 'curl/8' } })
    const other = keyOf('ip+userAgent', { headers: { 'user-agent': 'curl/9' } })
    expect(one).toMatch(/^192\.0\.2\.1 [\w-]{16}$/)
    expect(one).not.toBe(other)
    expect(keyOf('ip+userAgent', {})).toMatch(/^192\.0\.2\.1 /)
    expect(keyOf('ip+userAgent', { ip: undefined })).toBeUndefined()
  })

  it('of 10,000 addresses in one IPv6 network is one', () => {
    const keys = Array.from({ length: 10_000 }, (_, at) =>
      keyOf('ip', { ip: `2001:db8::${at.toString(16)}` }),
    )
    expect(new Set(keys).size).toBe(1)
  })

  it('stays short, however long the value', () => {
    const long = keyOf({ header: 'x' }, { headers: { x: 'a'.repeat(65_536) } })
    expect(long).toMatch(/^~h:[\w-]{43}$/)
    const header = { header: 'x' }
    const all = keyOf([header, header, header, header, header, header, header, header], {
      headers: { x: 'a'.repeat(128) },
    })
    expect(all?.length).toBeLessThan(64)
  })
})

describe('a fallback', () => {
  const headers = { 'x-tenant': '192.0.2.1' }
  const tenant = { header: 'x-tenant' }

  it('is taken in order', () => {
    const chain: FallbackSection = { key: 'user', otherwise: 'ip' }
    expect(keyOf('apiKey', { identity }, chain)).toBe('key_1')
    expect(keyOf('apiKey', { identity: { user: 'ada' } }, chain)).toBe('~1:ada')
    expect(keyOf('apiKey', {}, chain)).toBe('~2:192.0.2.1')
    expect(keyOf('apiKey', { ip: undefined }, chain)).toBeUndefined()
  })

  it('never shares a counter with a key of the first kind', () => {
    expect(keyOf(tenant, { headers }, 'ip')).not.toBe(keyOf(tenant, {}, 'ip'))
    const forged = keyOf(tenant, { headers: { 'x-tenant': '~1:192.0.2.1' } }, 'ip')
    expect(forged).not.toBe(keyOf(tenant, {}, 'ip'))
    expect(forged).toMatch(/^~h:/)
  })

  test.each<[FallbackSection, 'deny' | 'skip']>([
    ['deny', 'deny'],
    ['skip', 'skip'],
    ['ip', 'deny'],
    [{ key: 'user', otherwise: 'skip' }, 'skip'],
  ])('%j ends with %s', (otherwise, end) => {
    expect(planKey({ key: 'apiKey', otherwise }, settings).end).toBe(end)
  })
})

describe('the parts of a key', () => {
  it('never make the same key as other parts', () => {
    const value = fc.oneof(
      fc.string({ minLength: 1, maxLength: 6 }),
      fc.stringMatching(/^[0-9:~h{}]{1,6}$/),
      fc.constantFrom('a:b', '1:a', '~h:', '\r\n', '\0', '{x}', '\ud800', '\ud801', '12:ab'),
      fc.string({ minLength: 126, maxLength: 132 }),
    )
    const plan = planKey({ key: [{ header: 'a' }, { header: 'b' }] }, settings)
    const text = (a: string, b: string) => readKey(plan, factsOf({ headers: { a, b } }), 'free', '')
    fc.assert(
      fc.property(value, value, value, value, (a, b, c, d) => {
        const isSame = a === c && b === d
        expect(text(a, b) === text(c, d)).toBe(isSame)
      }),
      { numRuns: 20_000 },
    )
    expect(text('a:b', 'c')).not.toBe(text('a', 'b:c'))
  })

  test.each<[KeySection, readonly string[], FactsOptions]>([
    ['apiKey', ['key_1'], { identity }],
    ['ip', ['2001:DB8:0:1::7'], { ip: '2001:db8:0:1::9' }],
    ['ip', ['2001:db8:0:1::/64'], { ip: '2001:db8:0:1::9' }],
    ['ip', ['::ffff:192.0.2.1'], { ip: '192.0.2.1' }],
    [['organisation', 'path'], ['org_1', '/a'], { identity, path: '/a' }],
    ['path', ['/a%3Ab/'], { path: '/a:b;x' }],
    [{ header: 'x' }, ['z'.repeat(500)], { headers: { x: 'z'.repeat(500) } }],
    ['everyone', ['everyone'], {}],
  ])('%j: %j are those of the request %j', (key, parts, facts) => {
    const [first] = planKey({ key }, settings).alternatives
    expect(first?.fromParts(parts)).toBe(keyOf(key, facts))
  })
})
