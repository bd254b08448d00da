import { describe, expect, test } from 'vitest'
import { startAdminService, type TestService } from '../admin-contract.ts'

const HOUR_MS = 3_600_000

const override = { limit: 'api', key: ['acme'], set: { limit: 5 }, for: '1h', why: 'a promotion' }

const block = { kind: 'user', value: 'mallory', for: '1h', why: 'an attack' }

async function explain({ call }: TestService, identity: object = { organisation: 'acme' }) {
  return (await call('POST', '/v1/explain', { body: { identity } })).body as {
    verdict: { outcome: string; status?: number; reason: string }
    limits: { name: string; source?: string; instead?: string[]; limit?: { limit: number } }[]
    block?: { kind: string; instead: string }
    switch: { limits: string }
  }
}

describe('overrides', () => {
  test('are live at once, listed, explained and removed', async () => {
    const service = await startAdminService()
    const { call } = service
    const set = await call('PUT', '/v1/overrides', { body: override })
    expect(set).toMatchObject({ status: 200, body: { scope: 'node', note: 'this node only' } })
    const [api] = (await explain(service)).limits
    expect(api).toMatchObject({ source: 'live override', instead: ['limit'], limit: { limit: 5 } })
    const { body } = await call('GET', '/v1/overrides')
    expect(body.overrides).toMatchObject([
      { limit: 'api', key: ['acme'], set: { limit: 5 }, by: 'bootstrap', isExpired: false },
    ])
    const removal = { limit: 'api', key: ['acme'], why: 'it is over' }
    expect((await call('POST', '/v1/overrides/remove', { body: removal })).status).toBe(200)
    expect((await explain(service)).limits[0]).toMatchObject({ source: 'limit' })
    expect((await call('POST', '/v1/overrides/remove', { body: removal })).status).toBe(404)
  })

  test.for<[object, number, RegExp]>([
    [{ limit: 'none' }, 422, /no limit of the policy is named "none"/],
    [{ key: ['a', 'b'] }, 422, /counted by organisation, so it needs one text/],
    [{ key: [] }, 422, /key/],
    [{ set: { limit: -1 } }, 422, /set\.limit/],
    [{ set: {} }, 422, /set/],
    [{ set: { limit: 5, ttl: '1s', nonsense: 1 } }, 422, /set/],
    [{ for: undefined }, 422, /exactly one of them is needed/],
    [{ forever: true }, 422, /exactly one of them is needed/],
    [{ for: undefined, expires: '2020-01-01T00:00:00Z' }, 422, /the time has passed/],
    [{ for: '1000d' }, 422, /up to 366 days/],
  ])('with %j: %i', async ([change, status, detail]) => {
    const { call } = await startAdminService()
    const answer = await call('PUT', '/v1/overrides', { body: { ...override, ...change } })
    expect({ status: answer.status, detail: answer.body.detail }).toEqual({
      status,
      detail: expect.stringMatching(detail),
    })
  })

  test('longer than a day or for ever need the role admin', async () => {
    const { call, tokenFor } = await startAdminService()
    const token = await tokenFor('operate')
    const statusOf = async (end: object, by?: string) => {
      const body = { ...override, for: undefined, ...end }
      const asked = by === undefined ? { body } : { body, token: by }
      return (await call('PUT', '/v1/overrides', asked)).status
    }
    expect(await statusOf({ for: '24h' }, token)).toBe(200)
    expect(await statusOf({ for: '25h' }, token)).toBe(403)
    expect(await statusOf({ forever: true }, token)).toBe(403)
    expect(await statusOf({ for: '25h' })).toBe(200)
    expect(await statusOf({ forever: true })).toBe(200)
  })
})

describe('blocks', () => {
  test('are live at once, listed and removed, however an address is written', async () => {
    const service = await startAdminService()
    const { call } = service
    const ip = { kind: 'ip', value: '2001:DB8::1', for: '1h', answer: 429, why: 'a flood' }
    expect((await call('PUT', '/v1/blocks', { body: block })).status).toBe(200)
    expect((await call('PUT', '/v1/blocks', { body: ip })).status).toBe(200)
    const explained = await explain(service, { user: 'mallory' })
    expect(explained.verdict).toMatchObject({ outcome: 'refused', status: 403 })
    expect(explained.block).toMatchObject({ kind: 'user', instead: 'the limits' })
    const other = { kind: 'ip', value: '2001:db8::1', why: 'it ended' }
    expect((await call('POST', '/v1/blocks/remove', { body: other })).status).toBe(200)
    const { body } = await call('GET', '/v1/blocks')
    expect(body.blocks).toMatchObject([{ kind: 'user', value: 'mallory', answer: 403 }])
  })

  test.for<[object, RegExp]>([
    [{ kind: 'planet' }, /kind/],
    [{ value: undefined }, /value/],
    [{ kind: 'ip', value: '1.2.3' }, /an IP address/],
    [{ kind: 'cidr', value: '10.0.0.0/33' }, /CIDR/],
    [{ kind: 'key' }, /without a value/],
    [{ kind: 'key', value: undefined, limit: 'none', key: ['a'] }, /no limit of the policy/],
    [{ limit: 'api' }, /kind/],
    [{ answer: 200 }, /answer/],
    [{ value: 'a\u0007b' }, /without control characters/],
    [{ why: undefined }, /why/],
  ])('with %j are refused', async ([change, detail]) => {
    const { call } = await startAdminService()
    const answer = await call('PUT', '/v1/blocks', { body: { ...block, ...change } })
    expect({ status: answer.status, detail: answer.body.detail }).toEqual({
      status: 422,
      detail: expect.stringMatching(detail),
    })
  })
})

describe('the switch', () => {
  test('lasts an hour unless told otherwise, and off needs the role admin', async () => {
    const service = await startAdminService()
    const { call, tokenFor } = service
    const token = await tokenFor('operate')
    const asked = { limits: 'off', why: 'an emergency' }
    expect((await call('PUT', '/v1/switch', { body: asked, token })).status).toBe(403)
    const shadow = { ...asked, limits: 'shadow' }
    expect((await call('PUT', '/v1/switch', { body: shadow, token })).status).toBe(200)
    const lifted = { ...shadow, blocks: 'off' }
    expect((await call('PUT', '/v1/switch', { body: lifted, token })).status).toBe(403)
    const { body } = await call('PUT', '/v1/switch', { body: asked })
    const { expires } = body.entry as { expires: string }
    expect(Math.abs(Date.parse(expires) - Date.now() - HOUR_MS)).toBeLessThan(60_000)
    expect((await explain(service)).verdict.reason).toBe('the switch is off')
    expect((await call('GET', '/v1/switch')).body.switch).toMatchObject({ limits: 'off' })
  })
})

describe('a state file', () => {
  test('keeps entries and tokens over a restart, and never a token', async () => {
    const folder = (await startAdminService()).folder
    const admin = { token: { env: 'ADMIN_TOKEN' }, state: `${folder}/state.json` }
    const first = await startAdminService({ admin })
    const token = await first.tokenFor('read')
    await first.call('PUT', '/v1/overrides', { body: override })
    await first.service.close()
    const second = await startAdminService({ admin })
    expect((await explain(second)).limits[0]).toMatchObject({ source: 'live override' })
    expect((await second.call('GET', '/v1/status', { token })).status).toBe(200)
    const { readFileSync } = await import('node:fs')
    expect(readFileSync(`${folder}/state.json`, 'utf8')).not.toContain(token.slice(-20))
  })
})
