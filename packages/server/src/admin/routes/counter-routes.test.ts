import { expect, test } from 'vitest'
import { startAdminService } from '../admin-contract.ts'

const policy = `
store: { mode: memory }
decisionApi: { listen: { port: 0 }, token: { env: ADMIN_TOKEN } }
limits:
  - { name: api, key: organisation, otherwise: skip, limit: 2, per: 1h }
  - { name: site, key: user, otherwise: ip, limit: 2, per: 1h, match: { path: /site } }
  - { name: outer, key: user, otherwise: skip, limit: 9, per: 1h }
  - { name: inner, key: apiKey, otherwise: skip, limit: 9, per: 1h, within: outer }`

const counter = { limit: 'api', key: ['acme'] }

async function setup() {
  const service = await startAdminService({ policy })
  const port = service.service.decisionApi?.address.port
  const check = async () => {
    const response = await fetch(`http://127.0.0.1:${port}/v1/check`, {
      method: 'POST',
      headers: { authorization: 'Bearer bootstrap-token-of-the-tests-0123456789' },
      body: JSON.stringify({ limits: [{ name: 'api', key: ['acme'] }] }),
    })
    return ((await response.json()) as { outcome: string }).outcome
  }
  return { ...service, check }
}

test('a look-up shows what is used, and charges nothing', async () => {
  const { call, check } = await setup()
  await check()
  for (let at = 0; at < 2; at++) {
    const { body } = await call('POST', '/v1/counters/look-up', { body: counter })
    expect(body.counters).toMatchObject([
      { limit: 'api', used: 1, left: 1, held: null, shard: null, isCertain: true },
    ])
  }
})

test('a key alone is looked up under every limit with such a key', async () => {
  const { call } = await setup()
  const { body } = await call('POST', '/v1/counters/look-up', { body: { key: ['acme'] } })
  const names = (body.counters as { limit: string }[]).map(({ limit }) => limit)
  expect(names).toEqual(['api', 'site', 'outer'])
})

test('a reset and a refund admit the next request, in every door', async () => {
  const { call, check } = await setup()
  expect([await check(), await check(), await check()]).toEqual(['admitted', 'admitted', 'denied'])
  const refund = { ...counter, units: 1, why: 'an outage' }
  const refunded = await call('POST', '/v1/counters/refund', { body: refund })
  expect(refunded.body.counter).toMatchObject({ used: 1, left: 1 })
  expect([await check(), await check()]).toEqual(['admitted', 'denied'])
  const reset = await call('POST', '/v1/counters/reset', { body: { ...counter, why: 'x' } })
  expect(reset.body).toMatchObject({ before: { used: 2 }, counter: { used: 0, left: 2 } })
  expect(await check()).toBe('admitted')
})

test('the counter of a fallback key is reset by the kind of the key', async () => {
  const { call, service } = await setup()
  const port = service.decisionApi?.address.port
  const ask = async () => {
    const response = await fetch(`http://127.0.0.1:${port}/v1/check`, {
      method: 'POST',
      headers: { authorization: 'Bearer bootstrap-token-of-the-tests-0123456789' },
      body: JSON.stringify({ request: { method: 'GET', path: '/site', ip: '192.0.2.1' } }),
    })
    return ((await response.json()) as { outcome: string }).outcome
  }
  expect([await ask(), await ask(), await ask()]).toEqual(['admitted', 'admitted', 'denied'])
  const body = { limit: 'site', key: ['192.0.2.1'], why: 'x' }
  const first = await call('POST', '/v1/counters/reset', { body })
  expect(first.body).toMatchObject({ before: { used: 0 } })
  expect(await ask()).toBe('denied')
  const reset = await call('POST', '/v1/counters/reset', { body: { ...body, kind: 'ip' } })
  expect(reset.body).toMatchObject({ before: { used: 2 }, counter: { used: 0 } })
  expect(await ask()).toBe('admitted')
})

test.for<[object, RegExp]>([
  [{ limit: 'none' }, /no limit of the policy is named "none"/],
  [{ key: ['a', 'b'] }, /so it needs one text/],
  [{ kind: 'ip' }, /kind: "ip" is not one of api; allowed: organisation/],
  [{ tier: 'gold' }, /tier: "gold" is not known/],
  [{ limit: 'inner' }, /lies within outer, so the key of outer is needed/],
  [{ units: 0 }, /units/],
  [{ why: undefined }, /why/],
])('a refund with %j is refused in words', async ([change, detail]) => {
  const { call } = await setup()
  const body = { ...counter, units: 1, why: 'x', ...change }
  const answer = await call('POST', '/v1/counters/refund', { body })
  expect({ status: answer.status, detail: answer.body.detail }).toEqual({
    status: 422,
    detail: expect.stringMatching(detail),
  })
})
