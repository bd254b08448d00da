import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { keyedDigest } from '../../observability/digests.ts'
import { BOOTSTRAP, startAdminService } from '../admin-contract.ts'

interface Record {
  id: number
  action: string
  result: string
  reason?: string
  actor: { name: string; role: string }
  target: { type: string; keyHash?: string }
  before?: object
  after?: object
  leftOut?: number
}

const counter = { limit: 'api', key: ['acme'] }

test('every change has a record with its author, reason and changed fields', async () => {
  const { call, events } = await startAdminService()
  const set = { ...counter, set: { limit: 5 }, for: '1h', why: 'a promotion' }
  await call('PUT', '/v1/overrides', { body: set })
  await call('PUT', '/v1/overrides', { body: { ...set, set: { limit: 6 } } })
  await call('POST', '/v1/counters/reset', { body: { ...counter, why: 'a complaint' } })
  const { body } = await call('GET', '/v1/audit')
  const records = body.records as Record[]
  expect(records.map(({ action }) => action)).toEqual([
    'counter.reset',
    'override.set',
    'override.set',
  ])
  expect(records[1]).toMatchObject({
    actor: { name: 'bootstrap', role: 'admin' },
    before: { set: { limit: 5 } },
    after: { set: { limit: 6 } },
    reason: 'a promotion',
    result: 'done',
  })
  expect(events.filter(({ type }) => type === 'audit')).toHaveLength(3)
  expect(JSON.stringify(records)).not.toContain('acme')
})

test('the digest of an address is keyed, and the same everywhere and in the logs', async () => {
  const ip = '192.0.2.7'
  const policy = 'limits: [{ name: ip, key: ip, limit: 5, per: 1h }]'
  const digestsOf = async (text: string) => {
    const { call } = await startAdminService({ policy: text })
    const asked = { limit: 'ip', key: [ip] }
    const change = { for: '1h', why: 'x' }
    await call('PUT', '/v1/overrides', { body: { ...asked, set: { limit: 6 }, ...change } })
    await call('PUT', '/v1/blocks', { body: { kind: 'ip', value: ip, ...change } })
    await call('PUT', '/v1/blocks', { body: { kind: 'key', ...asked, ...change } })
    await call('POST', '/v1/blocks/remove', { body: { kind: 'ip', value: ip, why: 'x' } })
    await call('POST', '/v1/overrides/remove', { body: { ...asked, why: 'x' } })
    const { counter: refunded } = (
      await call('POST', '/v1/counters/refund', { body: { ...asked, units: 1, why: 'x' } })
    ).body as { counter: { keyHash: string } }
    const { counters } = (await call('POST', '/v1/counters/look-up', { body: asked })).body
    const { limits } = (await call('POST', '/v1/explain', { body: { ip } })).body
    const { records } = (await call('GET', '/v1/audit')).body
    const hashes = [refunded, ...(counters as []), ...(limits as [])] as { keyHash: string }[]
    const audited = (records as Record[]).flatMap(({ target }) => target.keyHash ?? [])
    return [...hashes.map(({ keyHash }) => keyHash), ...audited]
  }
  const byToken = await digestsOf(policy)
  const expected = keyedDigest(`digests ${BOOTSTRAP}`)(ip)
  expect(byToken).toEqual(Array.from({ length: 10 }, () => expected))
  const bySecret = await digestsOf(`${policy}\ndigests: { secret: { env: ADMIN_TOKEN } }`)
  expect(new Set(bySecret)).toEqual(new Set([keyedDigest(BOOTSTRAP)(ip)]))
})

test('pages, filters, export and the check of the chain', async () => {
  const { call } = await startAdminService()
  for (let at = 0; at < 5; at++) {
    const body = { kind: 'user', value: `u${at}`, for: '1h', why: `reason ${at}` }
    await call('PUT', '/v1/blocks', { body })
  }
  const first = await call('GET', '/v1/audit?count=2')
  expect((first.body.records as Record[]).map(({ id }) => id)).toEqual([5, 4])
  const next = await call('GET', `/v1/audit?count=2&before=${first.body.next}`)
  expect((next.body.records as Record[]).map(({ id }) => id)).toEqual([3, 2])
  const none = await call('GET', '/v1/audit?action=override')
  expect(none.body).toEqual({ records: [], next: null })
  const lines = (await call('GET', '/v1/audit/export?action=block')).text.trim().split('\n')
  expect(lines.map((line) => (JSON.parse(line) as Record).reason)).toEqual(
    [4, 3, 2, 1, 0].map((at) => `reason ${at}`),
  )
  const verdict = await call('GET', '/v1/audit/verify')
  expect(verdict.body).toEqual({ ok: true, records: 5, first: 1, last: 5 })
  for (const query of ['result=maybe', 'since=yesterday', 'count=0', 'before=x']) {
    expect((await call('GET', `/v1/audit?${query}`)).status).toBe(400)
  }
})

test('refused roles and failed log-ins are records, and no record has a token', async () => {
  const { call, tokenFor, events } = await startAdminService()
  const token = await tokenFor('read')
  await call('PUT', '/v1/switch', { token, body: { limits: 'off', why: 'x' } })
  const wrong = `${token.slice(0, -1)}${token.endsWith('A') ? 'B' : 'A'}`
  expect((await call('GET', '/v1/status', { token: wrong })).status).toBe(401)
  const { text, body } = await call('GET', '/v1/audit?result=denied')
  expect((body.records as Record[]).map(({ action }) => action)).toEqual(['login', 'switch.set'])
  expect(text + JSON.stringify(events)).not.toContain(token.slice(-20))
})

test('refused changes are records, without the values that were refused', async () => {
  const { call, tokenFor } = await startAdminService()
  const token = await tokenFor('operate')
  const end = { for: '1h', why: 'x' }
  const override = { limit: 'none', key: ['acme-secret'], set: { limit: 5 }, ...end }
  await call('PUT', '/v1/overrides', { body: override })
  await call('PUT', '/v1/overrides', { body: { ...override, limit: 5 } })
  await call('PUT', '/v1/switch', { token, body: { limits: 'off', ...end } })
  await call('PUT', '/v1/policy', { body: { text: 'limits: []', why: 'x' } })
  await call('POST', '/v1/blocks/remove', { body: { kind: 'user', value: 'x', why: 'x' } })
  await call('GET', '/v1/audit?count=0')
  const { body, text } = await call('GET', '/v1/audit')
  const records = (body.records as Record[]).filter(({ action }) => action !== 'token.create')
  expect(records.map(({ action, result, after }) => [action, result, after])).toEqual([
    ['block.remove', 'refused', { status: 404 }],
    ['policy.publish', 'conflict', { status: 409 }],
    ['switch.set', 'denied', { status: 403 }],
    ['override.set', 'refused', { status: 422 }],
    ['override.set', 'refused', { status: 422 }],
  ])
  expect(text).not.toContain('acme')
  expect((await call('GET', '/v1/audit/verify')).body.ok).toBe(true)
})

test('a flood of wrong tokens is limited, and writes few records', async () => {
  const { call, tokenFor } = await startAdminService()
  const token = await tokenFor('read')
  const statuses: number[] = []
  for (let at = 0; at < 8; at++) {
    statuses.push((await call('GET', '/v1/status', { token: `tg_wrong_${at}` })).status)
  }
  expect(statuses).toEqual([401, 401, 401, 401, 401, 429, 429, 429])
  const refused = await call('GET', '/v1/status', { token })
  expect(refused.status).toBe(429)
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
})

test('neither the audit, the log nor the state has a secret that was used', async () => {
  const state = 'state.json'
  const admin = { token: { env: 'ADMIN_TOKEN' }, state }
  const { call, tokenFor, events, folder } = await startAdminService({ admin })
  const token = await tokenFor('admin')
  const wrong = `tg_${token.slice(3, 15)}_${'w'.repeat(43)}`
  const session = await call('POST', '/v1/session', { token })
  const cookie = (session.headers.get('set-cookie') ?? '').split(';')[0] ?? ''
  const own = { cookie, 'sec-fetch-site': 'same-origin' }
  const customer = 'customer-key-5512'
  const target = { limit: 'api', key: [customer] }
  const set = { ...target, set: { limit: 5 }, for: '1h', why: 'x' }
  await call('PUT', '/v1/overrides', { token, body: set })
  await call('PUT', '/v1/overrides', { token: undefined, headers: own, body: set })
  await call('PUT', '/v1/overrides', { token: wrong, body: set })
  await call('PUT', '/v1/overrides', { token, body: { ...set, [token]: token } })
  await call('PUT', '/v1/blocks', {
    token,
    body: { kind: 'user', value: customer, for: '1h', why: 'x' },
  })
  await call('POST', '/v1/counters/look-up', { token, body: target })
  await call('POST', '/v1/counters/reset', { token, body: { ...target, why: 'x' } })
  await call('POST', '/v1/explain', {
    token,
    body: { headers: { authorization: `Bearer ${token}` } },
  })
  await call('GET', `/v1/audit?actor=${token}`, { token })
  const exported = (await call('GET', '/v1/audit/export')).text
  expect(exported.split('\n').length).toBeGreaterThan(8)
  const logged = JSON.stringify(events)
  const secrets = [BOOTSTRAP, token.slice(16), 'w'.repeat(43), cookie.split('=')[1] ?? '']
  for (const secret of secrets) {
    expect(secret.length).toBeGreaterThan(30)
    for (const text of [exported, logged, readFileSync(join(folder, state), 'utf8')]) {
      expect(text).not.toContain(secret)
    }
  }
  for (const text of [exported, logged]) expect(text).not.toContain(customer)
})
