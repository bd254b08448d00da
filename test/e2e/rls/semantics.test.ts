/** Responses of the service, over gRPC with a stock client, on both transports. */

import { describe, expect, test } from 'vitest'
import { transports } from '../../../packages/server/src/rls/settings.ts'
import { until } from '../../support/servers/until.ts'
import { type RequestMessage, request, type StatusMessage } from './rls-client.ts'
import { startTestRls } from './rls-server.ts'

const config = `
domain: shop
descriptors:
  - key: tenant
    rate_limit: { unit: hour, requests_per_unit: 3, name: by-tenant }
  - key: blocked
    rate_limit: { unit: hour, requests_per_unit: 0 }
  - key: plan
    value: gold
    rate_limit: { unlimited: true, replaces: [{ name: by-tenant }] }
  - key: tried
    rate_limit: { unit: hour, requests_per_unit: 1 }
    shadow_mode: true
  - key: quota
    rate_limit: { unit: hour, requests_per_unit: 1 }
    quota_mode: true
    metadata: { pool: { first: yes-1 }, shared: quota }
  - key: big
    rate_limit: { unit: hour, requests_per_unit: 100 }
    metadata: { pool: { second: yes-2 }, shared: big }
  - key: whitelisted
`

const remaining = ({ statuses }: { statuses: readonly StatusMessage[] }) =>
  statuses.map((status) => status.limit_remaining)

const codes = ({ statuses }: { statuses: readonly StatusMessage[] }) =>
  statuses.map((status) => status.code)

describe.each(transports)('over the transport %s', (transport) => {
  test('statuses are in the order of the descriptors, and tell limit, rest and reset', async () => {
    const { client } = await startTestRls(config, { transport })
    const beforeS = Date.now() / 1_000
    const answer = await client.ask(request('shop', ['none=1'], ['tenant=a'], ['plan=silver']))
    const afterS = Date.now() / 1_000
    expect(answer.overall_code).toBe('OK')
    expect(answer.statuses[0]).toMatchObject({
      code: 'OK',
      current_limit: null,
      limit_remaining: 0,
    })
    expect(answer.statuses[0]?.duration_until_reset).toBe(null)
    expect(answer.statuses[1]).toMatchObject({
      code: 'OK',
      current_limit: { requests_per_unit: 3, unit: 'HOUR', name: 'by-tenant' },
      limit_remaining: 2,
    })
    const seconds = Number(answer.statuses[1]?.duration_until_reset?.seconds)
    // The window ends with the hour. A second is lost to rounding.
    expect(seconds).toBeLessThanOrEqual(3_600 - (beforeS % 3_600) + 1)
    expect(seconds).toBeGreaterThanOrEqual(3_600 - (afterS % 3_600) - 1)
  })

  test('a refused call charges nothing, whichever descriptor refused it', async () => {
    const { client } = await startTestRls(config, { transport })
    const both = request('shop', ['tenant=a'], ['blocked=x'])
    const refused = await client.ask(both)
    expect(refused.overall_code).toBe('OVER_LIMIT')
    expect(codes(refused)).toEqual(['OK', 'OVER_LIMIT'])
    expect(remaining(refused)).toEqual([3, 0])
    await client.ask(both)
    expect(remaining(await client.ask(request('shop', ['tenant=a'])))).toEqual([2])
  })

  test('each descriptor is charged on its own if configured', async () => {
    const { client } = await startTestRls(config, { transport, charging: 'each' })
    const all = request('shop', ['tenant=a'], ['blocked=x'], ['tried=a'], ['quota=a'])
    const refused = await client.ask(all)
    expect(refused.overall_code).toBe('OVER_LIMIT')
    expect(codes(refused)).toEqual(['OK', 'OVER_LIMIT', 'OK', 'OK'])
    expect(remaining(refused)).toEqual([2, 0, 0, 0])
    expect(remaining(await client.ask(request('shop', ['tenant=a'])))).toEqual([1])
    // Only one of the two gets the last unit.
    const twice = await client.ask(request('shop', ['tenant=a'], ['tenant=a']))
    expect(codes(twice)).toEqual(['OK', 'OVER_LIMIT'])
    expect(codes(await client.ask(request('shop', ['tenant=a'])))).toEqual(['OVER_LIMIT'])
    expect(codes(await client.ask(request('shop', ['quota=a'])))).toEqual(['OVER_LIMIT'])
  })

  test('hits come from the descriptor, else from the request, and 0 only reads', async () => {
    const { client } = await startTestRls(config, { transport })
    const big = request('shop', ['big=a'])
    const withHits = (hits: number): RequestMessage => ({
      domain: 'shop',
      descriptors: [{ entries: [{ key: 'big', value: 'a' }], hits_addend: { value: hits } }],
      hits_addend: 7,
    })
    expect(remaining(await client.ask(big))).toEqual([99])
    expect(remaining(await client.ask({ ...big, hits_addend: 5 }))).toEqual([94])
    expect(remaining(await client.ask(withHits(4)))).toEqual([90])
    expect(remaining(await client.ask(withHits(0)))).toEqual([90])
    expect((await client.ask(withHits(91))).overall_code).toBe('OVER_LIMIT')
    expect(remaining(await client.ask(withHits(90)))).toEqual([0])
  })

  test('negative hits are given back, never below nothing, and are always fine', async () => {
    const rls = await startTestRls(config, { transport })
    const give = (value: number): RequestMessage => ({
      domain: 'shop',
      descriptors: [
        {
          entries: [{ key: 'tenant', value: 'a' }],
          hits_addend: { value },
          is_negative_hits: true,
        },
      ],
    })
    const take = { ...request('shop', ['tenant=a']), hits_addend: 3 }
    expect(remaining(await rls.client.ask(take))).toEqual([0])
    expect((await rls.client.ask(take)).overall_code).toBe('OVER_LIMIT')
    expect(remaining(await rls.client.ask(give(2)))).toEqual([2])
    expect(remaining(await rls.client.ask(give(20)))).toEqual([3])
    expect(codes(await rls.client.ask(take))).toEqual(['OK'])
    const stats = await (await fetch(`${rls.debug}/stats`)).text()
    expect(stats).toContain('rate_limit.shop.tenant.total_negative_hits: 22\n')
  })

  test('the same descriptor twice in a call is charged twice', async () => {
    const { client } = await startTestRls(config, { transport })
    const twice = request('shop', ['tenant=a'], ['tenant=a'])
    expect(remaining(await client.ask(twice))).toEqual([2, 1])
    const refused = await client.ask(twice)
    expect(refused.overall_code).toBe('OVER_LIMIT')
    expect(codes(refused)).toEqual(['OK', 'OVER_LIMIT'])
    expect(remaining(await client.ask(request('shop', ['tenant=a'])))).toEqual([0])
  })

  test('an unlimited rule is not counted, and replaces the limits that it names', async () => {
    const { client } = await startTestRls(config, { transport })
    const answer = await client.ask(request('shop', ['tenant=a'], ['plan=gold']))
    expect(answer.statuses[0]).toMatchObject({ code: 'OK', current_limit: null })
    expect(answer.statuses[1]).toMatchObject({ limit_remaining: 4294967295, current_limit: null })
    expect(remaining(await client.ask(request('shop', ['tenant=a'])))).toEqual([2])
  })

  test('a rule in shadow mode never refuses, and does not keep others from refusing', async () => {
    const { client } = await startTestRls(config, { transport })
    const tried = request('shop', ['tried=a'])
    expect(codes(await client.ask(tried))).toEqual(['OK'])
    const over = await client.ask(tried)
    expect(over.overall_code).toBe('OK')
    expect(over.statuses[0]).toMatchObject({ code: 'OK', limit_remaining: 0 })
    expect(over.statuses[0]?.current_limit?.requests_per_unit).toBe(1)
    const mixed = await client.ask(request('shop', ['tried=b'], ['blocked=b']))
    expect(mixed.overall_code).toBe('OVER_LIMIT')
    // The shadow charge was refunded, because the call was refused.
    await until('the refund is there', async () => {
      const look = await client.ask({
        domain: 'shop',
        descriptors: [{ entries: [{ key: 'tried', value: 'b' }], hits_addend: { value: 0 } }],
      })
      return remaining(look)[0] === 1
    })
  })

  test('in global shadow mode every call is admitted, and statuses are the real ones', async () => {
    const rls = await startTestRls(config, { transport, isShadowMode: true })
    const answer = await rls.client.ask(request('shop', ['blocked=a']))
    expect(answer.overall_code).toBe('OK')
    expect(codes(answer)).toEqual(['OVER_LIMIT'])
    const stats = await (await fetch(`${rls.debug}/stats`)).text()
    expect(stats).toContain('ratelimit.service.global_shadow_mode: 1\n')
  })

  test('a quota refuses only if every quota is spent', async () => {
    const { client } = await startTestRls(config, { transport })
    const quotas = request('shop', ['quota=a'], ['quota=b'])
    expect(codes(await client.ask(request('shop', ['quota=a'])))).toEqual(['OK'])
    const one = await client.ask(quotas)
    expect(one.overall_code).toBe('OK')
    expect(codes(one)).toEqual(['OVER_LIMIT', 'OK'])
    const none = await client.ask(quotas)
    expect(none.overall_code).toBe('OVER_LIMIT')
    expect(codes(none)).toEqual(['OVER_LIMIT', 'OVER_LIMIT'])
    const mixed = await client.ask(request('shop', ['blocked=a'], ['quota=c']))
    expect(mixed.overall_code).toBe('OVER_LIMIT')
    expect(codes(await client.ask(request('shop', ['quota=c'])))).toEqual(['OK'])
  })

  test('in global quota mode, one limit with room is enough', async () => {
    const { client } = await startTestRls(config, { transport, isQuotaMode: true })
    expect((await client.ask(request('shop', ['blocked=a'], ['tenant=a']))).overall_code).toBe('OK')
    expect((await client.ask(request('shop', ['blocked=a']))).overall_code).toBe('OVER_LIMIT')
  })

  test('headers are those of the limit that is nearest, or over', async () => {
    const headerNames = ['X-Limit', 'X-Remaining', 'X-Reset'] as const
    const { client } = await startTestRls(config, { transport, headerNames })
    const near = await client.ask(request('shop', ['big=a'], ['tenant=a']))
    expect(near.response_headers_to_add.map(({ key, value }) => [key, value]).slice(0, 2)).toEqual([
      ['X-Limit', '3'],
      ['X-Remaining', '2'],
    ])
    const over = await client.ask(request('shop', ['tenant=a'], ['blocked=a']))
    expect(over.response_headers_to_add[0]).toMatchObject({ key: 'X-Limit', value: '0' })
    expect((await client.ask(request('shop', ['none=a']))).response_headers_to_add).toEqual([])
  })

  test('metadata of passed descriptors is merged, the first one first', async () => {
    const { client } = await startTestRls(config, { transport, hasDynamicMetadata: true })
    const answer = await client.ask(request('shop', ['quota=a'], ['big=a'], ['blocked=a']))
    const struct = plain(answer.dynamic_metadata)
    expect(struct).toEqual({
      domain: 'shop',
      descriptors: [{ entries: ['quota=a'] }, { entries: ['big=a'] }, { entries: ['blocked=a'] }],
      metadata: { pool: { first: 'yes-1', second: 'yes-2' }, shared: 'quota' },
    })
  })
})

describe('a limit in the request', () => {
  const override = (requests_per_unit: number, unit: number | string, key = 'any') => ({
    domain: 'shop',
    descriptors: [{ entries: [{ key, value: 'v' }], limit: { requests_per_unit, unit } }],
  })

  test('replaces the configured limit, also if there is none', async () => {
    const { client } = await startTestRls(config)
    const answer = await client.ask(override(2, 'DAY'))
    expect(answer.statuses[0]).toMatchObject({
      current_limit: { requests_per_unit: 2, unit: 'DAY', name: '' },
      limit_remaining: 1,
    })
    await client.ask(override(2, 'DAY'))
    expect((await client.ask(override(2, 'DAY'))).overall_code).toBe('OVER_LIMIT')
    expect((await client.ask(override(5, 'DAY'))).statuses[0]?.limit_remaining).toBe(2)
    expect((await client.ask(override(2, 'MINUTE'))).statuses[0]?.limit_remaining).toBe(1)
  })

  test('has the counter of a configured limit of the same unit', async () => {
    const { client } = await startTestRls(config)
    await client.ask(request('shop', ['tenant=v']))
    const answer = await client.ask(override(10, 'HOUR', 'tenant'))
    expect(answer.statuses[0]?.limit_remaining).toBe(8)
  })

  test('is refused if its unit is unknown, and the process continues', async () => {
    const { client } = await startTestRls(config)
    await expect(client.ask(override(2, 0))).rejects.toMatchObject({ code: 3 })
    await expect(client.ask(override(2, 99))).rejects.toMatchObject({ code: 3 })
    expect((await client.ask(override(2, 'DAY'))).overall_code).toBe('OK')
  })
})

describe('a call that cannot be judged', () => {
  test('says why', async () => {
    const { client } = await startTestRls(config)
    await expect(client.ask(request(''))).rejects.toMatchObject({
      code: 3,
      details: 'rate limit domain must not be empty',
    })
    await expect(client.ask(request('shop'))).rejects.toMatchObject({
      code: 3,
      details: 'rate limit descriptor list must not be empty',
    })
  })

  test('without a configuration is unavailable', async () => {
    const rls = await startTestRls('domain: [')
    expect(rls.errors).toHaveLength(1)
    await expect(rls.client.ask(request('shop', ['a=b']))).rejects.toMatchObject({
      code: 14,
      details: 'no rate limit configuration loaded',
    })
    rls.write('config.yaml', config)
    const answer = await until('it is loaded', () => rls.client.ask(request('shop', ['tenant=a'])))
    expect(answer.overall_code).toBe('OK')
  })

  test('of an unknown domain is admitted and counted', async () => {
    const rls = await startTestRls(config)
    expect((await rls.client.ask(request('foo', ['a=b']))).overall_code).toBe('OK')
    const stats = await (await fetch(`${rls.debug}/stats`)).text()
    expect(stats).toContain('ratelimit.service.rate_limit.foo.domain_not_found: 1\n')
  })

  test('has caps on descriptors, entries and texts', async () => {
    const { client } = await startTestRls(config)
    const many = Array.from({ length: 65 }, () => ['a=b'])
    await expect(client.ask(request('shop', ...many))).rejects.toMatchObject({ code: 3 })
    const deep = Array.from({ length: 17 }, () => 'a=b')
    await expect(client.ask(request('shop', deep))).rejects.toMatchObject({ code: 3 })
    const long = [`a=${'x'.repeat(8_193)}`]
    await expect(client.ask(request('shop', long))).rejects.toMatchObject({ code: 3 })
    expect((await client.ask(request('shop', ['tenant=a']))).overall_code).toBe('OK')
  })
})

test('descriptors whose joined texts are the same have counters of their own', async () => {
  const { client } = await startTestRls(`
domain: d
descriptors:
  - key: a
    rate_limit: { unit: hour, requests_per_unit: 1 }
    descriptors:
      - { key: b, rate_limit: { unit: hour, requests_per_unit: 1 } }
`)
  expect((await client.ask(request('d', ['a=1', 'b=2']))).overall_code).toBe('OK')
  expect((await client.ask(request('d', ['a=1_b_2']))).overall_code).toBe('OK')
  expect((await client.ask(request('d', ['a=', 'b=']))).overall_code).toBe('OK')
  expect((await client.ask(request('d', ['a=', 'b=0:']))).overall_code).toBe('OK')
  expect((await client.ask(request('d', ['a=1', 'b=2']))).overall_code).toBe('OVER_LIMIT')
})

/** A google.protobuf.Value or Struct as the loader has it, as plain values. */
function plain(value: unknown): unknown {
  const fields = value as Record<string, unknown>
  if ('fields' in fields) {
    const entries = Object.entries(fields.fields as Record<string, unknown>)
    return Object.fromEntries(entries.map(([name, one]) => [name, plain(one)]))
  }
  const kind = fields.kind as string
  const inner = fields[kind]
  if (kind === 'structValue') return plain(inner)
  if (kind === 'listValue') return (inner as { values: unknown[] }).values.map(plain)
  return inner
}
