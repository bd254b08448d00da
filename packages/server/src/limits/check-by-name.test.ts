import { memoryStore } from 'tidegate'
import { describe, expect, it, test } from 'vitest'
import type { NamedCheck } from './check-by-name.ts'
import { createEnforcer } from './enforcer.ts'
import { factsOf, policyOf } from './enforcer-contract.ts'

const policy = `
tiers: { names: [free, premium], default: free }
limits:
  - { name: global, key: everyone, limit: 50, per: 1h }
  - { name: org, key: organisation, otherwise: skip, limit: 5, per: 1h }
  - name: key
    key: apiKey
    otherwise: ip
    limit: 3
    per: 1h
    within: org
    tiers: { premium: { limit: 4 } }
  - { name: pair, match: { path: /pay }, key: [user, path], otherwise: skip, limit: 2, per: 1h }
  - { name: next, key: everyone, limit: 0, per: 1h, mode: shadow }
  - { name: off, key: everyone, limit: 0, per: 1h, mode: off }
  - { name: slots, key: everyone, algorithm: concurrency, limit: 1, ttl: 1s }`

function setup(text = policy) {
  const enforcer = createEnforcer(policyOf(text), { store: memoryStore() })
  const check = (asked: NamedCheck) => {
    const result = enforcer.check(asked)
    if (result instanceof Promise) throw new Error('the memory store answers at once')
    return result
  }
  const verdict = (asked: NamedCheck) => {
    const result = check(asked)
    if (!result.ok) throw new Error(result.problem)
    return result.outcome
  }
  return { enforcer, check, verdict }
}

describe('a check by name', () => {
  it('charges the counters that requests have', () => {
    const { enforcer, verdict } = setup()
    const identity = { user: 'ada' }
    void enforcer.evaluate(factsOf({ identity, path: '/pay' }))
    const { evaluation } = verdict({ limits: [{ name: 'pair', key: ['ada', '/pay'] }] })
    expect(evaluation?.decision).toMatchObject({ allowed: true, remaining: 0 })
  })

  it('charges all or none', () => {
    const { verdict } = setup()
    const asked = {
      limits: [{ name: 'global' }, { name: 'org', key: ['o'] }, { name: 'key', key: ['k'] }],
    }
    for (let count = 0; count < 3; count++) expect(verdict(asked).outcome).toBe('admitted')
    expect(verdict(asked)).toMatchObject({ outcome: 'denied', refusedBy: 'key' })
    expect(verdict({ limits: [{ name: 'global' }] }).evaluation?.decision.remaining).toBe(46)
  })

  it('has a cost, also for single limits, and can only look', () => {
    const { verdict } = setup()
    const left = (asked: NamedCheck) =>
      verdict(asked).evaluation?.applied.map(({ decision }) => decision.remaining)
    expect(
      left({ limits: [{ name: 'global' }, { name: 'org', key: ['o'], cost: 2 }], cost: 4 }),
    ).toEqual([46, 3])
    expect(left({ limits: [{ name: 'global' }], peek: true })).toEqual([46])
    expect(left({ limits: [{ name: 'global' }], peek: true })).toEqual([46])
  })

  it('knows tiers', () => {
    const { verdict } = setup()
    const limits = [
      { name: 'org', key: ['o'] },
      { name: 'key', key: ['k'] },
    ]
    const { evaluation } = verdict({ limits, tier: 'premium' })
    expect(evaluation?.applied.map(({ decision }) => decision.limit)).toEqual([5, 4])
  })

  it('tells what limits in shadow mode say, and skips those that are off', () => {
    const { verdict } = setup()
    const { outcome, shadowed } = verdict({ limits: [{ name: 'next' }, { name: 'off' }] })
    expect(outcome).toBe('admitted')
    expect(shadowed).toMatchObject([{ name: 'next', decision: { allowed: false } }])
  })

  it('of a policy that is turned off admits', () => {
    const { verdict } = setup(`enabled: false${policy}`)
    expect(verdict({ limits: [{ name: 'global' }] })).toMatchObject({ evaluation: undefined })
  })

  test.each<[NamedCheck, string]>([
    [{ limits: [{ name: 'x' }] }, 'limits[0].name: no limit of the policy is named "x"'],
    [{ limits: [{ name: 'global' }, { name: 'global' }] }, 'limits[1].name: global is named twice'],
    [
      { limits: [{ name: 'slots' }] },
      'limits[0].name: slots is a concurrency limit, which only the gateway supports',
    ],
    [
      { limits: [{ name: 'org' }] },
      'limits[0].key: org is counted by organisation, so the key needs a text for each part',
    ],
    [
      { limits: [{ name: 'pair', key: ['ada'] }] },
      'limits[0].key: pair is counted by [user, path], so the key needs a text for each part',
    ],
    [
      { limits: [{ name: 'org', key: [''] }] },
      'limits[0].key: org is counted by organisation, so the key needs a text for each part',
    ],
    [
      { limits: [{ name: 'key', key: ['k'] }] },
      'limits: key lies within org, so that org is needed too',
    ],
    [
      { limits: [{ name: 'global' }], cost: -1 },
      'limits[0].cost: -1 is not allowed; allowed: a whole number from 0',
    ],
    [
      { limits: [{ name: 'global' }], tier: 'gold' },
      'tier: "gold" is not known; allowed: free, premium',
    ],
  ])('%j is refused', (asked, problem) => {
    expect(setup().check(asked)).toEqual({ ok: false, problem })
  })
})
