import { manualClock, memoryStore } from 'tidegate'
import { describe, expect, it, test } from 'vitest'
import { createEnforcer } from './enforcer.ts'
import { type FactsOptions, factsOf, policyOf } from './enforcer-contract.ts'
import type { PolicyEvent } from './limits-observer.ts'
import type { RequestOutcome } from './outcome.ts'

function setup(text: string, store = memoryStore({ clock: manualClock() })) {
  const clock = manualClock()
  const events: PolicyEvent[] = []
  const observer = (event: PolicyEvent) => void events.push(event)
  const enforcer = createEnforcer(policyOf(text), { store, clock, observer })
  const judge = (facts: FactsOptions = {}): RequestOutcome => {
    const verdict = enforcer.evaluate(factsOf(facts))
    if (verdict instanceof Promise) throw new Error('the memory store answers at once')
    return verdict
  }
  const outcomes = (count: number, facts?: FactsOptions) =>
    Array.from({ length: count }, () => judge(facts).outcome)
  return { enforcer, judge, outcomes, clock, events, store }
}

const identity = { apiKey: 'key_1', organisation: 'org_1' }

describe('a limit', () => {
  it('admits so many per key and refuses the next', () => {
    const { judge, outcomes } = setup(
      'limits: [{ name: a, key: apiKey, otherwise: skip, limit: 2, per: 1h }]',
    )
    expect(outcomes(3, { identity })).toEqual(['admitted', 'admitted', 'denied'])
    expect(judge({ identity: { apiKey: 'key_2' } }).outcome).toBe('admitted')
    const { evaluation, refusedBy, release } = judge({ identity })
    expect(evaluation?.decision).toMatchObject({ allowed: false, limit: 2, remaining: 0 })
    expect(evaluation?.applied.map(({ name }) => name)).toEqual(['a'])
    expect({ refusedBy, release }).toEqual({ refusedBy: 'a', release: undefined })
  })

  test.each<[string, FactsOptions, boolean]>([
    ['{ methods: [POST, PUT] }', { method: 'POST' }, true],
    ['{ methods: [POST, PUT] }', { method: 'GET' }, false],
    ['{ methods: [GET] }', { method: 'HEAD' }, true],
    ['{ methods: [HEAD] }', { method: 'GET' }, false],
    ['{ path: /v1/** }', { path: '/v1/a/b' }, true],
    ['{ path: /v1/** }', { path: '/v2' }, false],
    ['{ path: [/a, /b/*] }', { path: '/b/c' }, true],
    ['{ path: [/a, /b/*] }', { path: '/b' }, false],
    ['{ headers: { X-Kind: bulk } }', { headers: { 'x-kind': 'bulk' } }, true],
    ['{ headers: { X-Kind: bulk } }', { headers: { 'x-kind': 'Bulk' } }, false],
    ['{ headers: { x-kind: [a, b] } }', { headers: { 'x-kind': 'b' } }, true],
    ['{ headers: { x-kind: "*" } }', { headers: { 'x-kind': '' } }, true],
    ['{ headers: { x-kind: "*" } }', {}, false],
    ['{ region: eu }', {}, true],
    ['{ region: us }', {}, false],
    ['{ methods: [GET], path: /a, headers: { x: 1 } }', { path: '/a', headers: { x: '1' } }, true],
    ['{ methods: [GET], path: /a, headers: { x: 1 } }', { path: '/a' }, false],
    ['{ domain: shop }', {}, false],
    ['{ descriptor: { x: "*" } }', { headers: { x: '1' } }, false],
    ['{}', {}, true],
  ])('that matches %s and the request %j: %s', (match, facts, isMatched) => {
    const { judge, enforcer } = setup(
      `region: eu\nlimits: [{ name: a, match: ${match}, key: everyone, limit: 0, per: 1s }]`,
    )
    expect(judge(facts).outcome).toBe(isMatched ? 'denied' : 'admitted')
    expect(enforcer.explain(factsOf(facts))).toMatchObject({ limits: [{ applies: isMatched }] })
  })

  it('that is off, or out of a policy that is, counts nothing', () => {
    const off = setup('limits: [{ name: a, key: everyone, limit: 0, per: 1s, mode: off }]')
    expect(off.judge()).toMatchObject({ outcome: 'admitted', evaluation: undefined, shadowed: [] })
    const disabled = setup(
      'enabled: false\nlimits: [{ name: a, key: everyone, limit: 0, per: 1s }]',
    )
    expect(disabled.judge()).toMatchObject({ outcome: 'admitted', evaluation: undefined })
  })

  test.each([
    ['deny', 'missing-key', 'deny'],
    ['skip', 'admitted', 'skip'],
    ['ip', 'denied', 'fallback'],
  ])('without a key and otherwise %s: %s', (otherwise, outcome, action) => {
    const { judge, events } = setup(
      `limits: [{ name: a, key: apiKey, otherwise: ${otherwise}, limit: 0, per: 1s }]`,
    )
    expect(judge().outcome).toBe(outcome)
    expect(events).toEqual([{ type: 'missing-key', limit: 'a', action }])
  })

  it('charges nothing to others where a key is missing', () => {
    const { judge, store } = setup(`
limits:
  - { name: all, key: everyone, limit: 5, per: 1h }
  - { name: a, key: apiKey, otherwise: deny, limit: 5, per: 1h }`)
    expect(judge()).toMatchObject({ outcome: 'missing-key', refusedBy: 'a', evaluation: undefined })
    expect(store.size).toBe(0)
  })
})

describe('several limits', () => {
  const layered = `
limits:
  - { name: global, key: everyone, limit: 10, per: 1h }
  - { name: org, key: organisation, otherwise: skip, limit: 3, per: 1h }
  - { name: key, key: apiKey, otherwise: skip, limit: 2, per: 1h, within: org }
  - { name: pay, match: { path: /pay }, key: [apiKey, route], otherwise: skip, limit: 1, per: 1h }`

  it('are charged all or none, and the answer says which refused', () => {
    const { judge, outcomes } = setup(layered)
    expect(outcomes(3, { identity })).toEqual(['admitted', 'admitted', 'denied'])
    const other = { identity: { apiKey: 'key_2', organisation: 'org_1' } }
    const { outcome, evaluation } = judge(other)
    expect(outcome).toBe('admitted')
    const left = evaluation?.applied.map(({ name, decision }) => [name, decision.remaining])
    expect(left).toEqual([
      ['global', 7],
      ['org', 0],
      ['key', 1],
    ])
    expect(judge(other)).toMatchObject({ outcome: 'denied', refusedBy: 'org' })
    expect(
      judge({ identity: { apiKey: 'key_3' } }).evaluation?.applied[0]?.decision.remaining,
    ).toBe(6)
  })

  it('apply as far as the request is theirs', () => {
    const { judge } = setup(layered)
    const names = (facts: FactsOptions) => judge(facts).evaluation?.applied.map(({ name }) => name)
    expect(names({})).toEqual(['global'])
    expect(names({ identity, path: '/pay' })).toEqual(['global', 'org', 'key', 'pay'])
    expect(judge({ identity, path: '/pay' })).toMatchObject({ outcome: 'denied', refusedBy: 'pay' })
  })

  it('count a key within an organisation apart from the same key within another', () => {
    const { outcomes } = setup(layered)
    expect(outcomes(2, { identity })).toEqual(['admitted', 'admitted'])
    const moved = { identity: { apiKey: 'key_1', organisation: 'org_2' } }
    expect(outcomes(2, moved)).toEqual(['admitted', 'admitted'])
  })

  it('on rate and burst are both kept', () => {
    const clock = manualClock(3_600_000)
    const { outcomes } = setup(
      `
limits:
  - { name: rate, key: everyone, limit: 2, per: 1s, burst: 4 }
  - { name: quota, key: everyone, limit: 5, per: 1h, algorithm: fixedWindow }`,
      memoryStore({ clock }),
    )
    expect(outcomes(5)).toEqual([...Array(4).fill('admitted'), 'denied'])
    clock.advance(1_000)
    expect(outcomes(2)).toEqual(['admitted', 'denied'])
  })
})

describe('a cost', () => {
  test.each<[string, FactsOptions, number]>([
    ['3', {}, 7],
    ['0', {}, 10],
    [
      '[{ match: { methods: [POST] }, cost: 5 }, { match: { path: /x }, cost: 2 }]',
      { method: 'POST', path: '/x' },
      5,
    ],
    [
      '[{ match: { methods: [POST] }, cost: 5 }, { match: { path: /x }, cost: 2 }]',
      { path: '/x' },
      8,
    ],
    ['[{ match: { methods: [POST] }, cost: 5 }]', {}, 9],
    ['{ header: x-cost, max: 4 }', { headers: { 'x-cost': '3' } }, 7],
    ['{ header: x-cost, max: 4 }', { headers: { 'x-cost': '99' } }, 6],
    ['{ header: x-cost, max: 4 }', { headers: { 'x-cost': '0' } }, 9],
    ['{ header: x-cost, max: 4, default: 2 }', { headers: { 'x-cost': '-3' } }, 8],
    ['{ header: x-cost, max: 4, default: 2 }', { headers: { 'x-cost': '1e3' } }, 8],
    ['{ header: x-cost, max: 4, default: 2 }', {}, 8],
  ])('of %s for %j leaves %i', (cost, facts, left) => {
    const { judge } = setup(
      `limits: [{ name: a, key: everyone, limit: 10, per: 1h, cost: ${cost} }]`,
    )
    expect(judge(facts).evaluation?.decision.remaining).toBe(left)
  })
})

describe('tiers', () => {
  const text = `
tiers: { names: [free, premium], default: free, lookup: { claim: plan } }
limits:
  - name: a
    key: apiKey
    otherwise: skip
    limit: 5
    burst: 7
    per: 1h
    tiers: { free: { limit: 1 }, premium: { limit: 3, burst: 4 } }`

  it('have their own numbers', () => {
    const { judge } = setup(text)
    const limitOf = (claims: Record<string, unknown>, apiKey: string) =>
      judge({ identity: { apiKey, claims } }).evaluation?.decision.limit
    expect(limitOf({ plan: 'premium' }, 'p')).toBe(4)
    expect(limitOf({}, 'f')).toBe(1)
    expect(limitOf({ plan: 'gold' }, 'g')).toBe(1)
  })

  it('may change, and what was used stays used', () => {
    const { judge, outcomes } = setup(text)
    const free = { identity: { apiKey: 'k' } }
    const premium = { identity: { apiKey: 'k', tier: 'premium' } }
    expect(outcomes(2, free)).toEqual(['admitted', 'denied'])
    expect(judge(premium).evaluation?.decision).toMatchObject({ limit: 4, remaining: 2 })
    expect(judge(free).outcome).toBe('denied')
  })

  it('of the API key itself need no look-up', () => {
    const { judge } = setup(text)
    const identity = { apiKey: 'k', tier: 'premium', claims: { plan: 'free' } }
    expect(judge({ identity }).evaluation?.decision.limit).toBe(4)
  })

  it('can be part of a key', () => {
    const { outcomes } = setup(`
tiers: { names: [free, premium], default: free }
limits: [{ name: a, key: tier, limit: 1, per: 1h }]`)
    expect(outcomes(2)).toEqual(['admitted', 'denied'])
    expect(outcomes(1, { identity: { tier: 'premium' } })).toEqual(['admitted'])
  })
})

describe('an override', () => {
  it('holds for its key until it expires', () => {
    const { judge, clock } = setup(`
tiers: { names: [free], default: free }
limits:
  - name: a
    key: [organisation, path]
    otherwise: skip
    limit: 1
    per: 1h
    tiers: { free: { limit: 2 } }
overrides: [{ limit: a, key: [org_1, /x], set: { limit: 9 }, expires: 2023-11-14T23:13:20Z }]`)
    const limitOf = (path: string) => judge({ identity, path }).evaluation?.decision.limit
    expect([limitOf('/x'), limitOf('/y')]).toEqual([9, 2])
    clock.advance(3_600_000 - 1)
    expect(limitOf('/x')).toBe(9)
    clock.advance(1)
    expect(limitOf('/x')).toBe(2)
  })

  it('of 0 blocks a key', () => {
    const { outcomes } = setup(`
limits: [{ name: a, key: ip, limit: 9, per: 1s }]
overrides: [{ limit: a, key: "::ffff:192.0.2.1", set: { limit: 0 } }]`)
    expect(outcomes(1)).toEqual(['denied'])
    expect(outcomes(1, { ip: '192.0.2.2' })).toEqual(['admitted'])
  })

  it('is not to be had by a fallback', () => {
    const { outcomes } = setup(`
limits: [{ name: a, key: apiKey, otherwise: { header: x }, limit: 0, per: 1s }]
overrides: [{ limit: a, key: vip, set: { limit: 9 } }]`)
    expect(outcomes(1, { headers: { x: 'vip' } })).toEqual(['denied'])
    expect(outcomes(1, { identity: { apiKey: 'vip' } })).toEqual(['admitted'])
  })
})

describe('a rollout', () => {
  const share = (percent: number, name = 'a') => {
    const { judge } = setup(
      `limits:
  - { name: ${name}, key: { header: x }, otherwise: skip, limit: 0, per: 1s, rollout: ${percent} }`,
    )
    const keys = Array.from({ length: 10_000 }, (_, at) => `key_${at}`)
    return keys.filter((x) => judge({ headers: { x } }).outcome === 'denied')
  }

  it('reaches that share of keys, always the same ones', () => {
    const tenth = share(10)
    expect(tenth.length).toBeGreaterThan(850)
    expect(tenth.length).toBeLessThan(1_150)
    expect(share(10)).toEqual(tenth)
    expect(share(0)).toEqual([])
    expect(share(100)).toHaveLength(10_000)
  })

  it('keeps the keys that it has when it grows, and is another for another limit', () => {
    const tenth = share(10)
    const third = new Set(share(33))
    expect(tenth.every((key) => third.has(key))).toBe(true)
    expect(share(10, 'b')).not.toEqual(tenth)
  })
})

describe('a limit in shadow mode', () => {
  const text = `
limits:
  - { name: real, key: everyone, limit: 3, per: 1h }
  - { name: next, key: everyone, limit: 1, per: 1h, mode: shadow }
  - { name: keyed, key: apiKey, otherwise: deny, limit: 0, per: 1h, mode: shadow }`

  it('admits every request and reports the decisions', () => {
    const { judge } = setup(text)
    const said = (verdict: RequestOutcome) =>
      verdict.shadowed.map(({ name, decision }) => [name, decision.allowed])
    const first = judge()
    expect(first).toMatchObject({ outcome: 'admitted', shadowing: undefined })
    expect(first.evaluation?.applied.map(({ name }) => name)).toEqual(['real'])
    expect(said(first)).toEqual([['next', true]])
    expect(said(judge())).toEqual([['next', false]])
    expect(said(judge({ identity }))).toEqual([
      ['next', false],
      ['keyed', false],
    ])
    expect(judge()).toMatchObject({ outcome: 'denied', refusedBy: 'real', shadowed: [] })
  })

  it('has the counters that it has when it is enforced', () => {
    const store = memoryStore()
    const shadow = setup(
      'limits: [{ name: a, key: everyone, limit: 2, per: 1h, mode: shadow }]',
      store,
    )
    expect(shadow.outcomes(2)).toEqual(['admitted', 'admitted'])
    const enforced = setup('limits: [{ name: a, key: everyone, limit: 2, per: 1h }]', store)
    expect(enforced.outcomes(1)).toEqual(['denied'])
  })
})

describe('a concurrency limit', () => {
  const text = `
limits:
  - { name: slots, key: everyone, algorithm: concurrency, limit: 2, ttl: 30s }
  - { name: rate, key: everyone, limit: 4, per: 1h }`

  it('holds a slot until it is released, and charges the others', () => {
    const { judge } = setup(text)
    const [first, second] = [judge(), judge()]
    expect(judge()).toMatchObject({ outcome: 'denied', refusedBy: 'slots', release: undefined })
    first.release?.()
    first.release?.()
    const third = judge()
    expect(third.outcome).toBe('admitted')
    expect(judge().refusedBy).toBe('slots')
    second.release?.()
    third.release?.()
    expect(judge().evaluation?.applied.map(({ decision }) => decision.remaining)).toEqual([1, 0])
    expect(judge()).toMatchObject({ outcome: 'denied', refusedBy: 'rate' })
  })

  it('in shadow mode is released as well', () => {
    const { judge } = setup(
      `limits:
  - { name: a, key: everyone, algorithm: concurrency, limit: 1, ttl: 30s, mode: shadow }`,
    )
    const first = judge()
    expect(judge().shadowed[0]?.decision.allowed).toBe(false)
    first.release?.()
    expect(judge().shadowed[0]?.decision.allowed).toBe(true)
  })
})

describe('a verdict', () => {
  it('has the keys of its limits, for the digests of logs', () => {
    const { judge } = setup(
      'limits: [{ name: a, key: apiKey, otherwise: skip, limit: 1, per: 1s }]',
    )
    const keys = judge({ identity: { apiKey: 'secret' } }).keys()
    expect(keys).toEqual([{ limit: 'a', key: 'secret' }])
  })
})

describe('a changed policy', () => {
  it('goes on with the counters of limits that stayed', () => {
    const store = memoryStore()
    const before = setup('limits: [{ name: a, key: ip, limit: 3, per: 1h }]', store)
    expect(before.outcomes(2)).toEqual(['admitted', 'admitted'])
    const after = setup(
      'limits: [{ name: b, key: ip, limit: 9, per: 1h }, { name: a, key: ip, limit: 4, per: 1h }]',
      store,
    )
    const { evaluation } = after.judge()
    expect(evaluation?.applied.map(({ name, decision }) => [name, decision.remaining])).toEqual([
      ['b', 8],
      ['a', 1],
    ])
  })
})
