import { manualClock, memoryStore } from 'tidegate'
import { describe, expect, it, test } from 'vitest'
import { createEnforcer } from './enforcer.ts'
import { type FactsOptions, factsOf, policyOf } from './enforcer-contract.ts'

const policy = `
region: eu
ipLists: { deny: [203.0.113.0/24] }
tiers: { names: [free, premium], default: free }
limits:
  - { name: global, key: everyone, limit: 9, per: 1s }
  - { name: org, key: organisation, otherwise: skip, limit: 8, per: 1s }
  - name: key
    key: apiKey
    otherwise: ip
    limit: 7
    per: 1s
    within: org
    tiers: { premium: { limit: 70 } }
  - { name: post, match: { methods: [POST] }, key: ip, limit: 6, per: 1s, cost: 2 }
  - { name: pay, match: { path: /pay/** }, key: [ip, route], limit: 5, per: 1s }
  - { name: bulk, match: { headers: { x-kind: bulk } }, key: ip, limit: 4, per: 1s }
  - { name: us, match: { region: us }, key: ip, limit: 3, per: 1s }
  - { name: old, key: ip, limit: 2, per: 1s, mode: off }
  - { name: next, key: user, otherwise: deny, limit: 1, per: 1s, mode: shadow }
  - { name: some, key: ip, limit: 1, per: 1s, rollout: 0 }
  - { name: slots, key: ip, algorithm: concurrency, limit: 1, ttl: 5s }
overrides: [{ limit: post, key: 192.0.2.1, set: { limit: 60 } }]`

const enforcer = createEnforcer(policyOf(policy), { store: memoryStore(), clock: manualClock() })

function explain(facts: FactsOptions = {}) {
  const explanation = enforcer.explain(factsOf(facts))
  if (explanation instanceof Promise) throw new Error('nothing has to be fetched')
  const limitOf = (name: string) => explanation.limits.find((limit) => limit.name === name)
  return { explanation, limitOf }
}

describe('an explanation', () => {
  it('names every limit in the order of the policy', () => {
    const names = explain().explanation.limits.map(({ name }) => name)
    expect(names.join(' ')).toBe('global org key post pay bulk us old next some slots')
  })

  test.each<[string, FactsOptions, string]>([
    ['org', {}, 'there is no key (organisation), so it is skipped'],
    ['post', { method: 'GET' }, 'the method is not POST'],
    ['pay', { path: '/v1' }, 'the path does not match /pay/**'],
    ['bulk', {}, 'the header x-kind is missing'],
    ['bulk', { headers: { 'x-kind': 'single' } }, 'the header x-kind has another value'],
    ['us', {}, 'it is for the region us'],
    ['old', {}, 'its mode is off'],
    ['next', {}, 'there is no key (user), so it is skipped'],
    ['some', {}, 'the rollout of 0 percent has not reached this key'],
    ['post', { method: 'POST', ip: undefined }, 'there is no key (ip), so it is refused'],
  ])('says why %s is not for %j', (name, facts, reason) => {
    expect(explain(facts).limitOf(name)).toMatchObject({ applies: false, reason })
  })

  it('says with which key, cost and numbers a limit applies', () => {
    const identity = { apiKey: 'key_1', organisation: 'org_1', tier: 'premium' }
    const { explanation, limitOf } = explain({ identity, method: 'POST', path: '/pay/1' })
    expect(explanation).toMatchObject({ isEnabled: true, ip: undefined, tier: 'premium' })
    expect(limitOf('key')).toMatchObject({
      applies: true,
      keyKind: 'apiKey',
      key: 'key_1',
      keyParts: ['key_1'],
      within: ['org_1'],
      cost: 1,
      limit: { algorithm: 'tokenBucket', limit: 70, burst: 70 },
      source: 'tier',
      isFallback: false,
    })
    expect(limitOf('org')).toMatchObject({ within: ['org_1'], source: 'limit' })
    expect(limitOf('post')).toMatchObject({ cost: 2, limit: { limit: 60 }, source: 'override' })
    const keyParts = ['192.0.2.1', '/pay/**']
    expect(limitOf('pay')).toMatchObject({ keyKind: '[ip, route]', keyParts })
    expect(limitOf('slots')).toMatchObject({ cost: 1, limit: { algorithm: 'concurrency' } })
  })

  it('tells a fallback, and an address on a list', () => {
    const fallback = { keyKind: 'ip', keyParts: ['192.0.2.1'], isFallback: true }
    expect(explain().limitOf('key')).toMatchObject(fallback)
    expect(explain({ ip: '203.0.113.9' }).explanation.ip).toBe('deny')
  })

  it('says of a policy that is turned off that no limit applies', () => {
    const off = createEnforcer(policyOf(`enabled: false${policy}`), { store: memoryStore() })
    const explanation = off.explain(factsOf())
    expect(explanation).toMatchObject({ isEnabled: false })
    expect(JSON.stringify(explanation)).not.toContain('"applies":true')
  })

  it('agrees with the verdict about which limits apply', () => {
    const identities = [{}, { apiKey: 'k', organisation: 'o' }, { user: 'u', tier: 'premium' }]
    for (const identity of identities) {
      for (const method of ['GET', 'POST']) {
        for (const path of ['/', '/pay', '/pay/x']) {
          for (const headers of [{}, { 'x-kind': 'bulk' }]) {
            const facts = { identity, method, path, headers }
            const fresh = createEnforcer(policyOf(policy), { store: memoryStore() })
            const verdict = fresh.evaluate(factsOf(facts))
            if (verdict instanceof Promise) throw new Error('nothing has to be fetched')
            const asked = verdict.keys().map(({ limit }) => limit)
            const applied = explain(facts).explanation.limits.filter(({ applies }) => applies)
            expect(asked.sort()).toEqual(applied.map(({ name }) => name).sort())
          }
        }
      }
    }
  })
})
