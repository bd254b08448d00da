import { manualClock, memoryStore } from 'tidegate'
import { describe, expect, it, test } from 'vitest'
import { createEnforcer } from '../enforcer.ts'
import { type FactsOptions, factsOf, policyOf } from '../enforcer-contract.ts'
import type { LiveBlock, LiveEntries, LiveOverride, LiveSwitch } from './live-entries.ts'
import { noEntries } from './live-entries.ts'

const HOUR_MS = 3_600_000

const policy = `
ipLists: { allow: [192.0.2.9], deny: [198.51.100.0/24] }
tiers: { names: [free, premium], default: free }
limits:
  - name: api
    key: organisation
    otherwise: skip
    limit: 2
    per: 1h
    tiers: { premium: { limit: 4 } }
  - { name: ip, match: { path: /ip }, key: ip, limit: 1, per: 1h }
  - { name: needy, match: { path: /needy }, key: user, otherwise: deny, limit: 1, per: 1h }
overrides: [{ limit: api, key: doc, set: { limit: 3 } }]`

function setup(text = policy) {
  const clock = manualClock()
  const enforcer = createEnforcer(policyOf(text), { store: memoryStore({ clock }), clock })
  const use = (entries: Partial<LiveEntries>) => enforcer.use({ ...noEntries, ...entries })
  const judge = (facts: FactsOptions = {}) => {
    const verdict = enforcer.evaluate(factsOf(facts))
    if (verdict instanceof Promise) throw new Error('the memory store answers at once')
    return verdict
  }
  const explain = (facts: FactsOptions = {}) => {
    const found = enforcer.explain(factsOf(facts))
    if (found instanceof Promise) throw new Error('nothing has to be fetched')
    return found
  }
  const admitted = (facts: FactsOptions) => {
    let count = 0
    while (count < 20 && judge(facts).outcome === 'admitted') count += 1
    return count
  }
  const until = (ms: number) => clock.now() + ms
  return { clock, enforcer, use, judge, explain, admitted, until }
}

function override(org: string, limit: number, more: Partial<LiveOverride> = {}): LiveOverride {
  const base = { id: `o-${org}-${limit}`, limit: 'api', key: [org], expiresAt: Infinity, at: 1 }
  return { ...base, set: { limit }, ...more }
}

function block(kind: LiveBlock['kind'], value: string, more: Partial<LiveBlock> = {}): LiveBlock {
  return { id: `b-${kind}`, kind, value, answer: 403, expiresAt: Infinity, at: 1, ...more }
}

function turned(limits: LiveSwitch['limits'], more: Partial<LiveSwitch> = {}): LiveSwitch {
  return { id: 'switch', limits, blocks: 'on', expiresAt: Infinity, at: 1, ...more }
}

function org(organisation: string, more: FactsOptions = {}): FactsOptions {
  return { identity: { organisation }, ...more }
}

describe('a live override', () => {
  it('wins over the document, the tier and the limit, and is named with those that lost', () => {
    const { use, admitted, explain } = setup()
    use({ overrides: [override('doc', 5), override('plain', 1)] })
    expect(admitted(org('doc'))).toBe(5)
    expect(admitted(org('plain'))).toBe(1)
    expect(admitted(org('other'))).toBe(2)
    const premium = { identity: { organisation: 'doc', tier: 'premium' } }
    expect(explain(premium).limits[0]).toMatchObject({
      source: 'live override',
      instead: ['override', 'tier', 'limit'],
      override: 'o-doc-5',
      limit: { limit: 5 },
    })
    expect(explain(org('other')).limits[0]).toMatchObject({ source: 'limit', instead: [] })
  })

  it('ends at its time, and then the next rule in order holds', () => {
    const { use, explain, clock, until } = setup()
    use({ overrides: [override('doc', 5, { expiresAt: until(HOUR_MS) })] })
    expect(explain(org('doc')).limits[0]).toMatchObject({ source: 'live override' })
    clock.advance(HOUR_MS)
    expect(explain(org('doc')).limits[0]).toMatchObject({ source: 'override' })
  })

  it('is older than another one in the same place: the newer wins, and its end revives it', () => {
    const { use, explain, clock, until } = setup()
    const newer = override('a', 7, { at: 2, expiresAt: until(HOUR_MS) })
    for (const overrides of [
      [override('a', 6), newer],
      [newer, override('a', 6)],
    ]) {
      use({ overrides })
      expect(explain(org('a')).limits[0]).toMatchObject({ limit: { limit: 7 } })
    }
    clock.advance(HOUR_MS)
    expect(explain(org('a')).limits[0]).toMatchObject({ limit: { limit: 6 } })
  })

  it('of an unknown limit, with wrong parts or wrong numbers changes nothing', () => {
    const { use, admitted } = setup()
    use({
      overrides: [
        override('a', 9, { limit: 'none' }),
        override('a', 9, { key: ['a', 'b'] }),
        override('a', 9, { set: { limit: 3, per: 0 } }),
      ],
    })
    expect(admitted(org('a'))).toBe(2)
  })

  it('applies to checks by name as well', () => {
    const { use, enforcer } = setup()
    use({ overrides: [override('a', 1)] })
    const check = () => enforcer.check({ limits: [{ name: 'api', key: ['a'] }] })
    expect(check()).toMatchObject({ outcome: { outcome: 'admitted' } })
    expect(check()).toMatchObject({ outcome: { outcome: 'denied' } })
  })
})

describe('a block', () => {
  const identity = { organisation: 'o1', user: 'u1', apiKey: 'k1', certificate: 'c1' }

  test.each<[LiveBlock['kind'], string, FactsOptions, boolean]>([
    ['ip', '192.0.2.1', {}, true],
    ['ip', '192.0.2.2', {}, false],
    ['ip', '2001:DB8:0::1', { ip: '2001:db8::1' }, true],
    ['ip', '2001:db8::2', { ip: '2001:db8::1' }, false],
    ['cidr', '192.0.0.0/16', {}, true],
    ['cidr', '0.0.0.0/0', {}, true],
    ['cidr', '192.0.2.1/32', {}, true],
    ['cidr', '192.0.3.0/24', {}, false],
    ['cidr', '194.0.0.0/7', { ip: '195.255.0.1' }, true],
    ['cidr', '194.0.0.0/7', { ip: '196.0.0.1' }, false],
    ['ip', '1.2.3.4', { ip: '1.2.3.4' }, true],
    ['ip', '10.20.3.4', { ip: '10.20.3.4' }, true],
    ['ip', '255.255.255.255', { ip: '255.255.255.255' }, true],
    ['cidr', '100.64.0.0/10', { ip: '100.127.0.1' }, true],
    ['cidr', '100.64.0.0/10', { ip: '100.128.0.1' }, false],
    ['cidr', '9.0.0.0/8', { ip: '9.255.1.1' }, true],
    ['cidr', '2000::/3', { ip: '3fff::1' }, true],
    ['cidr', '2000::/3', { ip: '4000::1' }, false],
    ['cidr', '::/0', { ip: 'abcd:ef01::1' }, true],
    ['cidr', '::/0', {}, false],
    ['ip', '::1', { ip: '::1' }, true],
    ['ip', 'abcd::1', { ip: 'abcd::1' }, true],
    ['ip', '9.8.7.6', { ip: '9.8.7.6' }, true],
    ['ip', '98.7.6.5', { ip: '9.8.7.65' }, false],
    ['cidr', '2001:db8::/32', { ip: '2001:db8:1::1' }, true],
    ['cidr', '2001:db8::/32', { ip: '2001:db9::1' }, false],
    ['cidr', '2001:db8::/32', {}, false],
    ['user', 'u1', { identity }, true],
    ['user', 'u1', {}, false],
    ['apiKey', 'k1', { identity }, true],
    ['organisation', 'o1', { identity }, true],
    ['certificate', 'c1', { identity }, true],
    ['certificate', 'o1', { identity }, false],
  ])('by %s %s of the request %j: %s', (kind, value, facts, isBlocked) => {
    const { use, judge, explain } = setup()
    use({ blocks: [block(kind, value)] })
    expect(judge(facts).outcome).toBe(isBlocked ? 'blocked' : 'admitted')
    expect(explain(facts).block?.kind).toBe(isBlocked ? kind : undefined)
  })

  it('by key applies to requests that the limit matches, also if the switch is off', () => {
    const { use, judge, explain } = setup()
    const blocks = [block('key', '', { limit: 'ip', key: ['192.0.2.1'], answer: 429 })]
    use({ blocks })
    expect(judge({ path: '/ip' })).toMatchObject({ outcome: 'blocked', block: { answer: 429 } })
    expect(judge({ path: '/other' }).outcome).toBe('admitted')
    use({ blocks, switch: turned('off') })
    expect(judge({ path: '/ip' }).outcome).toBe('blocked')
    expect(explain({ path: '/ip' }).block).toMatchObject({ kind: 'key', answer: 429 })
  })

  it('by key is found by checks by name', () => {
    const { use, enforcer } = setup()
    use({ blocks: [block('key', '', { limit: 'api', key: ['a'] })] })
    const check = enforcer.check({ limits: [{ name: 'api', key: ['a'] }] })
    expect(check).toMatchObject({ outcome: { outcome: 'blocked' } })
  })

  it('wins over the allow list, and explain names the list that lost', () => {
    const { use, enforcer, explain } = setup()
    use({ blocks: [block('ip', '192.0.2.9'), block('user', 'u1')] })
    expect(enforcer.ipRule('192.0.2.9')).toBe('allow')
    expect(enforcer.addressBlock('192.0.2.9')).toMatchObject({ kind: 'ip' })
    const exempt = { isExempt: true, isAddressChecked: true }
    const facts = factsOf({ ip: '192.0.2.9', identity })
    expect(enforcer.evaluate(facts, exempt)).toMatchObject({ outcome: 'blocked' })
    expect(enforcer.evaluate(factsOf({ ip: '192.0.2.9' }), exempt)).toMatchObject({
      outcome: 'admitted',
      evaluation: undefined,
    })
    expect(explain({ ip: '192.0.2.9' }).block?.instead).toBe('the allow list of ipLists')
  })

  it('of an address wins over that of a network, and a longer prefix over a shorter', () => {
    const { use, judge } = setup()
    const shorter = block('cidr', '192.0.0.0/16', { id: 'shorter', at: 9 })
    const longer = block('cidr', '192.0.2.0/24', { id: 'longer' })
    const exact = block('ip', '192.0.2.1', { id: 'exact' })
    use({ blocks: [shorter, longer, exact] })
    expect(judge().block?.id).toBe('exact')
    expect(judge({ ip: '192.0.2.3' }).block?.id).toBe('longer')
    expect(judge({ ip: '192.0.9.9' }).block?.id).toBe('shorter')
  })

  it('ends at its time', () => {
    const { use, judge, clock, until } = setup()
    use({ blocks: [block('ip', '192.0.2.1', { expiresAt: until(HOUR_MS) })] })
    expect(judge().outcome).toBe('blocked')
    clock.advance(HOUR_MS)
    expect(judge().outcome).toBe('admitted')
  })

  it('comes before the refusal of a request without a key', () => {
    const { use, judge } = setup()
    const facts = { path: '/needy', ...org('o1') }
    expect(judge(facts).outcome).toBe('missing-key')
    use({ blocks: [block('key', '', { limit: 'api', key: ['o1'] })] })
    expect(judge(facts).outcome).toBe('blocked')
  })
})

describe('the switch', () => {
  it('off admits everything without counting, and blocks stay', () => {
    const { use, judge, admitted, explain } = setup()
    use({ switch: turned('off'), blocks: [block('user', 'u1')] })
    expect(admitted(org('a'))).toBe(20)
    expect(judge(org('a')).evaluation).toBeUndefined()
    expect(judge({ path: '/needy' }).outcome).toBe('admitted')
    expect(judge({ identity: { user: 'u1' } }).outcome).toBe('blocked')
    expect(explain(org('a')).limits[0]).toMatchObject({ reason: 'the switch is off' })
    use({})
    expect(admitted(org('a'))).toBe(2)
  })

  it('shadow counts and never refuses', () => {
    const { use, judge, admitted } = setup()
    use({ switch: turned('shadow') })
    expect(admitted(org('a'))).toBe(20)
    expect(judge(org('a')).shadowed[0]?.decision.allowed).toBe(false)
    expect(judge({ path: '/needy' }).outcome).toBe('admitted')
    use({})
    expect(judge(org('a')).outcome).toBe('denied')
  })

  it('blocks off lifts all blocks', () => {
    const { use, judge } = setup()
    const blocks = [block('ip', '192.0.2.1'), block('user', 'u1')]
    use({ blocks, switch: turned('on', { blocks: 'off' }) })
    expect(judge({ identity: { user: 'u1' } }).outcome).toBe('admitted')
  })

  it('ends at its time', () => {
    const { use, admitted, clock, until, explain } = setup()
    use({ switch: turned('off', { expiresAt: until(HOUR_MS), blocks: 'off' }) })
    expect(explain().switch).toMatchObject({ limits: 'off', blocks: 'off', until: until(HOUR_MS) })
    clock.advance(HOUR_MS)
    expect(admitted(org('a'))).toBe(2)
    expect(explain().switch).toEqual({ limits: 'on', blocks: 'on', until: null })
  })

  it('applies to checks by name', () => {
    const { use, enforcer } = setup()
    const check = () => enforcer.check({ limits: [{ name: 'api', key: ['a'] }], cost: 9 })
    expect(check()).toMatchObject({ outcome: { outcome: 'denied' } })
    for (const state of ['off', 'shadow'] as const) {
      use({ switch: turned(state) })
      expect(check()).toMatchObject({ outcome: { outcome: 'admitted' } })
    }
  })
})
