import { manualClock, memoryStore } from 'tidegate'
import { describe, expect, test } from 'vitest'
import { oneStore } from '../../limits/charging/store-router.ts'
import { createEnforcer } from '../../limits/enforcer.ts'
import { policyOf } from '../../limits/enforcer-contract.ts'
import { Overload } from '../../overload/overload.ts'
import { rlsDefaults } from '../settings.ts'
import { codes, type Descriptor, type RateLimitResponse } from '../wire/rate-limit-messages.ts'
import { createPolicyRateLimitService } from './policy-service.ts'
import { ResponseTimes } from './response-times.ts'
import { Stats } from './stats.ts'

type Entries = Readonly<Record<string, string>>

function setup(text: string, settings = {}) {
  const store = memoryStore({ clock: manualClock() })
  const enforcer = createEnforcer(policyOf(text), { store })
  const stats = new Stats()
  const errors: unknown[] = []
  const service = createPolicyRateLimitService({
    enforcer: () => enforcer,
    stores: oneStore(store),
    stats,
    times: new ResponseTimes(),
    settings: { ...rlsDefaults, ...settings },
    overload: new Overload({ delay: 1_000, requestsMax: 1_000, criticalShare: 0 }),
    onError: (error) => errors.push(error),
  })
  const ask = async (descriptors: readonly Partial<Descriptor>[], domain = 'shop', hits = 0) => {
    const response = await service.ask({
      domain,
      hitsAddend: hits,
      descriptors: descriptors.map((one) => ({
        entries: [],
        limit: undefined,
        hitsAddend: undefined,
        isNegativeHits: false,
        ...one,
      })),
    })
    expect(errors).toEqual([])
    if ('status' in response) throw new Error(response.text)
    return response
  }
  const of = (...all: readonly Entries[]) => ask(all.map((one) => ({ entries: entriesOf(one) })))
  return { ask, of, enforcer, stats }
}

function entriesOf(entries: Entries) {
  return Object.entries(entries).map(([key, value]) => ({ key, value }))
}

const isOver = ({ overallCode }: RateLimitResponse) => overallCode === codes.overLimit

const remaining = ({ statuses }: RateLimitResponse) =>
  statuses.map(({ limitRemaining }) => limitRemaining)

describe('a descriptor', () => {
  test.each<[string, Entries, boolean]>([
    ['match: { domain: shop }, key: everyone', {}, true],
    ['match: { domain: [other, shop] }, key: everyone', {}, true],
    ['match: { domain: other }, key: everyone', {}, false],
    ['match: { descriptor: { route: /a } }, key: everyone', { route: '/a' }, true],
    ['match: { descriptor: { route: [/b, /a] } }, key: everyone', { route: '/a' }, true],
    ['match: { descriptor: { route: "*" } }, key: everyone', { route: '' }, true],
    ['match: { descriptor: { route: /a } }, key: everyone', { route: '/b' }, false],
    ['match: { descriptor: { route: /a } }, key: everyone', { path: '/a' }, false],
    ['key: { descriptor: tenant }, otherwise: skip', { tenant: 'acme' }, true],
    ['key: { descriptor: tenant }, otherwise: skip', { tenant: '' }, false],
    ['key: domain, otherwise: skip', {}, true],
    ['key: user, otherwise: deny', { user: 'alice' }, true],
    ['key: user, otherwise: deny', { tenant: 'acme' }, false],
    ['key: apiKey, otherwise: deny', { apiKey: 'k' }, true],
    ['key: organisation, otherwise: deny', { organization: 'o' }, true],
    ['key: ip', { remote_address: '192.0.2.1' }, true],
    ['key: ip', { remote_address: 'unix' }, false],
    ['key: ip', { ip: '2001:db8::1' }, true],
    ['key: { header: x-tenant }, otherwise: skip', { 'X-Tenant': 'acme' }, true],
    ['match: { path: /v1/** }, key: everyone', { path: '/v1/a?b=c' }, true],
    ['match: { path: /v1/** }, key: everyone', { ':path': '/v1/a' }, true],
    ['match: { path: /v1/** }, key: everyone', { path: '/v2' }, false],
    ['match: { path: "/**" }, key: everyone', { route: '/a' }, false],
    ['match: { methods: [GET] }, key: everyone', { method: 'GET' }, true],
    ['match: { methods: [GET] }, key: everyone', {}, false],
    ['key: path', { path: '/a' }, true],
    ['key: path', { tenant: 'a' }, false],
  ])('falls under { %s } with %j: %s', async (limit, entries, isLimited) => {
    const { of } = setup(`limits: [{ name: a, limit: 1, per: 1m, ${limit} }]`)
    await of(entries)
    expect(isOver(await of(entries))).toBe(isLimited)
  })

  test('without the key of a limit for descriptors is refused, if the limit says so', async () => {
    const { of } = setup(`
limits:
  - name: a
    match: { descriptor: { route: "*" } }
    key: { descriptor: user }
    otherwise: deny
    limit: 9
    per: 1m`)
    const { overallCode, statuses } = await of({ route: '/a' }, { route: '/a', user: 'alice' })
    expect(overallCode).toBe(codes.overLimit)
    expect(statuses.map(({ code }) => code)).toEqual([codes.overLimit, codes.ok])
    expect(isOver(await of({ plan: 'free' }))).toBe(false)
  })

  test('under several limits has the status of the most restrictive', async () => {
    const { of } = setup(`
limits:
  - { name: wide, key: everyone, limit: 9, per: 1m, algorithm: fixedWindow }
  - { name: narrow, key: user, otherwise: skip, limit: 2, per: 1h, algorithm: fixedWindow }`)
    const [status] = (await of({ user: 'alice' })).statuses
    expect(status).toMatchObject({
      code: codes.ok,
      limitRemaining: 1,
      currentLimit: { name: 'narrow', requestsPerUnit: 2, unit: 3 },
    })
    await of({ user: 'alice' })
    const over = await of({ user: 'alice' })
    expect(over.statuses).toMatchObject([
      { code: codes.overLimit, currentLimit: { name: 'narrow' }, limitRemaining: 0 },
    ])
    // The refused call has charged neither of them.
    expect(remaining(await of({ user: 'bob' }))).toEqual([1])
    expect(remaining(await of({}))).toEqual([5])
  })

  test('under no limit is admitted', async () => {
    const { of } = setup('limits: []')
    expect(await of({ a: 'b' })).toMatchObject({
      overallCode: codes.ok,
      statuses: [{ code: codes.ok, currentLimit: undefined }],
    })
  })
})

describe('a call', () => {
  const text = `
limits:
  - { name: all, key: everyone, limit: 3, per: 1m }
  - { name: user, key: user, otherwise: skip, limit: 2, per: 1m }`

  test('is charged once to a counter that several descriptors lead to', async () => {
    const { of } = setup(text)
    expect(remaining(await of({ user: 'alice' }, { tenant: 'acme' }))).toEqual([1, 2])
    expect(remaining(await of({ user: 'alice' }, { tenant: 'acme' }))).toEqual([0, 1])
  })

  test('that one descriptor refuses charges nothing', async () => {
    const { of } = setup(text)
    await of({ user: 'alice' })
    await of({ user: 'alice' })
    expect(isOver(await of({ user: 'bob' }, { user: 'alice' }))).toBe(true)
    expect(remaining(await of({ user: 'bob' }))).toEqual([0])
  })

  test('charges its hits instead of the cost, and gives them back', async () => {
    const { ask, of } = setup(
      'limits: [{ name: a, key: user, otherwise: skip, limit: 10, per: 1m, cost: 2 }]',
    )
    const entries = entriesOf({ user: 'alice' })
    expect(remaining(await of({ user: 'alice' }))).toEqual([8])
    expect(remaining(await ask([{ entries }], 'shop', 3))).toEqual([5])
    expect(remaining(await ask([{ entries, hitsAddend: 1 }], 'shop', 3))).toEqual([4])
    expect(remaining(await ask([{ entries, hitsAddend: 0 }]))).toEqual([4])
    expect(remaining(await ask([{ entries, hitsAddend: 5, isNegativeHits: true }]))).toEqual([9])
  })

  test('counts for limits in shadow mode and is not refused by them', async () => {
    const { of, stats } = setup(`
limits:
  - { name: real, key: everyone, limit: 9, per: 1m }
  - { name: trial, key: everyone, limit: 1, per: 1m, mode: shadow }
  - { name: never, key: everyone, limit: 0, per: 1m, mode: off }`)
    await of({})
    const { overallCode, statuses } = await of({})
    expect(overallCode).toBe(codes.ok)
    expect(statuses).toMatchObject([{ limitRemaining: 7, currentLimit: { name: 'real' } }])
    expect([...stats.rules].map(({ name, shadowMode }) => [name, shadowMode])).toEqual([
      ['policy.real', 0],
      ['policy.trial', 1],
    ])
  })

  test('has the tier and the override of its key', async () => {
    const { of } = setup(`
tiers: { names: [free, premium], default: free }
limits:
  - name: a
    key: user
    otherwise: skip
    limit: 1
    per: 1m
    tiers: { premium: { limit: 5 } }
overrides: [{ limit: a, key: vip, set: { limit: 100 } }]`)
    expect(remaining(await of({ user: 'alice' }))).toEqual([0])
    expect(remaining(await of({ user: 'bob', tier: 'premium' }))).toEqual([4])
    expect(remaining(await of({ user: 'vip' }))).toEqual([99])
  })

  test('of an address on a list is refused, or not limited', async () => {
    const { of } = setup(`
ipLists: { deny: [192.0.2.0/24], allow: [192.0.2.7] }
limits: [{ name: a, key: everyone, limit: 0, per: 1m }]`)
    expect(isOver(await of({ remote_address: '192.0.2.1' }))).toBe(true)
    expect(isOver(await of({ remote_address: '192.0.2.7' }))).toBe(false)
  })

  test('takes no slot of a concurrency limit', async () => {
    const { of } = setup(
      'limits: [{ name: a, key: everyone, algorithm: concurrency, limit: 0, ttl: 1m }]',
    )
    expect(isOver(await of({}))).toBe(false)
  })
})

test('live blocks, overrides and the switch apply to descriptors', async () => {
  const policy = `
ipLists: { allow: [192.0.2.9] }
limits: [{ name: a, key: user, otherwise: skip, limit: 1, per: 1h }]`
  const { of, enforcer } = setup(policy)
  const ends = { expiresAt: Infinity, at: 1 }
  const bob = { ...ends, id: 'b', kind: 'user', value: 'bob', answer: 403 } as const
  const ann = { ...ends, id: 'o', limit: 'a', key: ['ann'], set: { limit: 2 } }
  enforcer.use({ overrides: [ann], blocks: [bob], switch: undefined })
  expect(isOver(await of({ user: 'bob' }))).toBe(true)
  expect(isOver(await of({ user: 'bob', ip: '192.0.2.9' }))).toBe(true)
  expect(isOver(await of({ user: 'eve', ip: '192.0.2.9' }))).toBe(false)
  const asked = [await of({ user: 'ann' }), await of({ user: 'ann' }), await of({ user: 'ann' })]
  expect(asked.map(isOver)).toEqual([false, false, true])
  for (const limits of ['off', 'shadow'] as const) {
    const state = { ...ends, id: 'switch', limits, blocks: 'on' } as const
    enforcer.use({ overrides: [], blocks: [bob], switch: state })
    expect(isOver(await of({ user: 'ann' }))).toBe(false)
    expect(isOver(await of({ user: 'bob' }))).toBe(true)
  }
})
