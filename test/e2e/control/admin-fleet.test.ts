/** The admin API of nodes that share one etcd. */

import { describe, expect, test } from 'vitest'
import type { CallOptions } from '../../../packages/server/src/admin/admin-contract.ts'
import { routeTable } from '../../../packages/server/src/admin/route-table.ts'
import { overrideKey, SWITCH_KEY } from '../../../packages/server/src/control/live/entries.ts'
import { isEtcdMissing, startEtcd } from '../../support/servers/etcd/etcd.ts'
import { until } from '../../support/servers/until.ts'
import { useServer } from '../../support/use-server.ts'
import { type AdminNode, startAdminNode } from './admin-nodes.ts'
import { apiPolicy } from './api-policy.ts'
import { commandLine } from './command-line.ts'
import { newPrefix } from './fleet-node.ts'

interface AuditRecord {
  readonly action: string
  readonly result: string
  readonly actor: { readonly kind: string; readonly name: string }
  readonly versionFrom?: number
  readonly versionTo?: number
  readonly reason?: string
  readonly after?: object
}

async function auditOf({ call }: AdminNode): Promise<readonly AuditRecord[]> {
  return (await call('GET', '/v1/audit')).body.records as AuditRecord[]
}

// Needs etcd, which run.sh installs.
describe.skipIf(isEtcdMissing())('the admin API of a fleet', () => {
  const etcd = useServer(() => startEtcd())
  const fleet = () => ({ endpoints: etcd.endpoints, prefix: newPrefix() })

  test('publishes versions, which are live, listed, compared and rolled back', async () => {
    const node = await startAdminNode('a', fleet())
    const { call, publish, check } = node
    const acme = { organisation: 'acme' }
    expect((await call('GET', '/v1/policy')).body.current).toBeNull()
    const first = await publish(apiPolicy(70), 0, 'more room')
    expect(first.body).toMatchObject({ version: 1, by: 'bootstrap', why: 'more room', parent: 0 })
    expect(first.headers.get('etag')).toBe('"1"')
    await until('it is live', async () => (await check(acme)).limit === 70)
    expect((await publish(apiPolicy(80), 1)).status).toBe(200)
    const back = await call('POST', '/v1/policy/rollback', {
      body: { to: 1, why: 'too much' },
      headers: { 'If-Match': '"2"' },
    })
    expect(back.body).toMatchObject({ version: 3, rollbackOf: 1, parent: 2 })
    await until('version 3 is live', async () => (await check(acme)).limit === 70)
    const current = await call('GET', '/v1/policy')
    expect(current.headers.get('etag')).toBe('"3"')
    expect(current.body.current).toMatchObject({ version: 3, text: apiPolicy(70) })
    const { versions } = (await call('GET', '/v1/policy/versions?before=3')).body
    expect(versions).toMatchObject([{ version: 2 }, { version: 1 }])
    const { diff } = (await call('GET', '/v1/policy/diff?from=1&to=2')).body
    expect(diff).toContain('limit: 80')
    expect((await call('GET', '/v1/policy/versions/9')).status).toBe(404)
    expect(await auditOf(node)).toMatchObject([
      { action: 'policy.rollback', versionFrom: 2, versionTo: 3, reason: 'too much' },
      { action: 'policy.publish', versionFrom: 1, versionTo: 2, result: 'done' },
      { action: 'policy.publish', versionFrom: 0, versionTo: 1, actor: { name: 'bootstrap' } },
    ])
  })

  test('gives a version to a part of the nodes, promotes it, and aborts another', async () => {
    const options = fleet()
    const [a, b] = [await startAdminNode('a', options), await startAdminNode('b', options)]
    const x = { organisation: 'x' }
    const limits = async () => [(await a.check(x)).limit, (await b.check(x)).limit].join()
    await a.publish(apiPolicy(10), 0)
    await until('version 1 is live', async () => (await limits()) === '10,10')
    const begin = (limit: number, seen: number, where: object) =>
      a.call('PUT', '/v1/policy/canary', {
        body: { text: apiPolicy(limit), where, for: '30m', why: 'try it' },
        headers: { 'If-Match': `"${seen}"` },
      })
    const change = (name: string) =>
      b.call('POST', `/v1/policy/canary/${name}`, { body: { why: 'seen enough' } })
    expect((await change('promote')).status).toBe(404)
    expect((await change('abort')).status).toBe(404)
    expect((await begin(20, 0, { share: 1 })).status).toBe(412)
    expect((await begin(20, 1, { share: 1, region: 'eu' })).status).toBe(422)
    expect((await begin(20, 1, { nodes: ['line\nbreak'] })).status).toBe(422)
    const begun = await begin(20, 1, { nodes: ['b'] })
    expect(begun.body.canary).toMatchObject({ version: 2, where: { nodes: ['b'] } })
    await until('it is live on B', async () => (await limits()) === '10,20')
    expect((await b.call('GET', '/v1/policy/canary')).body).toEqual(begun.body)
    expect((await change('promote')).body).toMatchObject({ version: 2, parent: 1 })
    await until('it is live on both', async () => (await limits()) === '20,20')
    await begin(30, 2, { nodes: ['a'] })
    await until('another is live on A', async () => (await limits()) === '30,20')
    expect((await change('abort')).body).toEqual({ ended: 3 })
    await until('A has returned', async () => (await limits()) === '20,20')
    expect((await a.call('GET', '/v1/policy/canary')).body).toEqual({ canary: null })
    const done = (await auditOf(a)).filter(({ result }) => result === 'done').toReversed()
    expect(done.map(({ action }) => action)).toEqual([
      'policy.publish',
      'policy.stage',
      'policy.canary',
      'policy.promote',
      'policy.stage',
      'policy.canary',
      'policy.abort',
    ])
    expect(done[3]).toMatchObject({ versionFrom: 1, versionTo: 2, reason: 'seen enough' })
  })

  // `call` compares every success with the schema of its route.
  test('responds with success on every route', async () => {
    const { call, publish, tokenFor } = await startAdminNode('a', fleet())
    await tokenFor('read')
    // A node lists a token when etcd has told it, also one that it has made.
    const tokenId = await until('the token is listed', async () => {
      const { tokens } = (await call('GET', '/v1/tokens')).body as { tokens: { id: string }[] }
      return tokens[0]?.id
    })
    const why = 'a test'
    const end = { for: '1h', why }
    const key = { limit: 'api', key: ['acme'] }
    const idempotencyKey = { sender: ['acme'], key: 'order-1' }
    const block = { kind: 'ip', value: '192.0.2.9' }
    const text = apiPolicy(5)
    const seen = { headers: { 'If-Match': '"1"' } }
    const bodies: Record<string, CallOptions> = {
      'POST /v1/explain': { body: { identity: { organisation: 'acme' } } },
      'PUT /v1/policy': { body: { text, why }, ...seen },
      'GET /v1/policy/diff': {},
      'POST /v1/policy/rollback': { body: { to: 1, why }, headers: { 'If-Match': '"2"' } },
      'PUT /v1/policy/canary': {
        body: { text, where: { share: 1 }, ...end },
        headers: { 'If-Match': '"3"' },
      },
      'POST /v1/policy/canary/promote': { body: { why } },
      'POST /v1/counters/look-up': { body: key },
      'POST /v1/idempotency-keys/look-up': { body: idempotencyKey },
      'POST /v1/idempotency-keys/forget': { body: { ...idempotencyKey, why } },
      'POST /v1/clients/look-up': { body: { kind: 'ip', value: '192.0.2.9' } },
      'POST /v1/policy/what-if': { body: { text } },
      'POST /v1/counters/reset': { body: { ...key, why } },
      'POST /v1/counters/refund': { body: { ...key, units: 1, why } },
      'PUT /v1/overrides': { body: { ...key, set: { limit: 500, per: '1h' }, ...end } },
      'POST /v1/overrides/remove': { body: { ...key, why } },
      'PUT /v1/blocks': { body: { ...block, ...end } },
      'POST /v1/blocks/remove': { body: { ...block, why } },
      'PUT /v1/switch': { body: { limits: 'shadow', why } },
      'POST /v1/tokens': { body: { name: 'ada', role: 'read', ...end } },
      'POST /v1/tokens/revoke': { body: { id: tokenId, why } },
    }
    await publish(apiPolicy(3), 0)
    // Those that remove come last in their part of the table, and the canary ends twice.
    const failed: string[] = []
    for (const { method, path } of routeTable) {
      // These need other regions: test/e2e/regions/forget.test.ts.
      if (path.startsWith('/v1/regions/')) continue
      const name = `${method} ${path}`
      const query = path === '/v1/policy/diff' ? '?from=1&to=2' : ''
      const asked = bodies[name] ?? (method === 'GET' ? {} : { body: { why } })
      if (path === '/v1/policy/canary/abort') {
        const again = { 'If-Match': '"4"' }
        await call('PUT', '/v1/policy/canary', {
          ...bodies['PUT /v1/policy/canary'],
          headers: again,
        })
      }
      const { status } = await call(method, `${path.replace('{version}', '1')}${query}`, asked)
      if (status !== 200) failed.push(`${name} ${status}`)
      // Lists have an entry now.
      if (method === 'PUT') await call('GET', path)
    }
    expect(failed).toEqual([])
  })

  test('refuses a publication without If-Match, over an unseen version, or not valid', async () => {
    const { call, publish } = await startAdminNode('a', fleet())
    const body = { text: apiPolicy(3), why: 'a test' }
    expect((await call('PUT', '/v1/policy', { body })).status).toBe(428)
    expect((await publish(apiPolicy(3), 0)).status).toBe(200)
    expect((await publish(apiPolicy(4), 1)).status).toBe(200)
    const lost = await publish(apiPolicy(5), 1)
    expect(lost).toMatchObject({
      status: 412,
      body: { current: { version: 2, by: 'bootstrap' }, diff: expect.stringContaining('limit: 4') },
    })
    expect(lost.headers.get('etag')).toBe('"2"')
    const wrong = await publish('limits: [{ name: x }]\n', 2)
    expect(wrong.status).toBe(422)
    expect(wrong.body.problems).toContainEqual(expect.stringContaining('document:1'))
    const local = await publish(`store: {}\n${apiPolicy(1)}`, 2)
    expect(local.body.problems).toContainEqual(expect.stringContaining('stays in the local file'))
    expect((await publish(`# ${'x'.repeat(262_144)}\n${apiPolicy(1)}`, 2)).status).toBe(422)
    const unknown = await call('POST', '/v1/policy/rollback', {
      body: { to: 9, why: 'a test' },
      headers: { 'If-Match': '"2"' },
    })
    expect(unknown.status).toBe(404)
    expect((await call('GET', '/v1/policy')).body.current).toMatchObject({ version: 2 })
  })

  test('changes decisions of every node, in one audit', async () => {
    const options = fleet()
    const [a, b] = [await startAdminNode('a', options), await startAdminNode('b', options)]
    const acme = { organisation: 'acme' }
    const end = { for: '1h', why: 'a test' }
    const override = { limit: 'api', key: ['acme'], set: { limit: 500 }, ...end }
    const set = await a.call('PUT', '/v1/overrides', { body: override })
    expect(set.body).toMatchObject({ scope: 'fleet', note: 'all nodes' })
    await until('B has the override', async () => (await b.check(acme)).limit === 500)
    const block = { kind: 'user', value: 'mallory', ...end }
    await b.call('PUT', '/v1/blocks', { body: block })
    const isBlocked = async ({ check }: AdminNode) =>
      (await check({ user: 'mallory' })).outcome === 'blocked'
    await until('A has the block', () => isBlocked(a))
    await a.call('POST', '/v1/blocks/remove', { body: { ...block, for: undefined } })
    await until('B has no block', async () => !(await isBlocked(b)))
    await b.publish(apiPolicy(9), 0)
    await until('A has the version', async () => (await a.check({ organisation: 'x' })).limit === 9)
    expect((await a.check(acme)).limit).toBe(500)
    const actions = ['policy.publish', 'block.remove', 'block.set', 'override.set']
    for (const node of [a, b]) {
      expect((await auditOf(node)).map(({ action }) => action)).toEqual(actions)
      const verdict = (await node.call('GET', '/v1/audit/verify')).body
      expect(verdict).toEqual({ ok: true, records: 4, first: 1, last: 4 })
    }
  })

  test('has publications of the command line and failed attempts in the same audit', async () => {
    const options = fleet()
    const node = await startAdminNode('a', options)
    const cli = commandLine(options)
    const by = ['--by', 'ada', '--why', 'by hand']
    expect((await cli('publish', cli.file(apiPolicy(3)), ...by)).code).toBe(0)
    expect((await node.publish(apiPolicy(4), 1)).status).toBe(200)
    expect((await cli('rollback', '1', ...by)).code).toBe(0)
    expect((await cli('publish', cli.file('limits: 1'), ...by)).code).toBe(1)
    expect((await cli('publish', cli.file(apiPolicy(5)), ...by, '--parent', '1')).code).toBe(1)
    expect((await cli('rollback', '77', ...by)).code).toBe(1)
    expect((await cli('rollback', '1', '--by', 'a\u001b[2J', '--why', 'x')).code).toBe(2)
    expect((await node.publish(apiPolicy(6), 1)).status).toBe(412)
    expect((await node.publish('limits: 1', 3)).status).toBe(422)
    const records = await until('all are written', async () => {
      const found = await auditOf(node)
      return found.length === 8 && found.toReversed()
    })
    const shown = records.map(({ actor, action, result }) => `${actor.kind} ${action} ${result}`)
    expect(shown).toEqual([
      'cli policy.publish done',
      'token policy.publish done',
      'cli policy.rollback done',
      'cli policy.publish refused',
      'cli policy.publish conflict',
      'cli policy.rollback refused',
      'token policy.publish conflict',
      'token policy.publish refused',
    ])
    expect(records[0]).toMatchObject({ actor: { name: 'ada', kind: 'cli' }, reason: 'by hand' })
    expect(records[2]).toMatchObject({ versionFrom: 2, versionTo: 3, after: { rollbackOf: 1 } })
    expect((await node.call('GET', '/v1/audit/verify')).body).toMatchObject({ ok: true })
  })

  test('accepts tokens of another node until they are revoked', async () => {
    const options = fleet()
    const [a, b] = [await startAdminNode('a', options), await startAdminNode('b', options)]
    const token = await a.tokenFor('read')
    const statusOf = async () => (await b.call('GET', '/v1/session', { token })).status
    await until('B knows the token', async () => (await statusOf()) === 200)
    const { tokens } = (await b.call('GET', '/v1/tokens')).body as { tokens?: { id: string }[] }
    const id = tokens?.[0]?.id
    await a.call('POST', '/v1/tokens/revoke', { body: { id, why: 'a test' } })
    await until('B has forgotten it', async () => (await statusOf()) === 401)
  })

  test('a log-out ends the session on every node', async () => {
    const options = fleet()
    const [a, b] = [await startAdminNode('a', options), await startAdminNode('b', options)]
    const opened = await a.call('POST', '/v1/session')
    const cookie = opened.headers.get('set-cookie')?.split(';')[0] ?? ''
    const sameOrigin = { cookie, 'sec-fetch-site': 'same-origin' }
    const statusOf = async ({ url }: typeof b) =>
      (await fetch(`${url}/v1/session`, { headers: sameOrigin })).status
    expect([await statusOf(a), await statusOf(b)]).toEqual([200, 200])
    await fetch(`${a.url}/v1/session`, { method: 'DELETE', headers: sameOrigin })
    expect(await statusOf(a)).toBe(401)
    await until('B refuses the copy', async () => (await statusOf(b)) === 401)
  })

  test('shows the place of the changes, and the nodes', async () => {
    const node = await startAdminNode('a', fleet())
    const { call, publish, url } = node
    await publish(apiPolicy(3), 0)
    await until('it is live', async () => (await node.check({ organisation: 'x' })).limit === 3)
    const page = (await (await fetch(`${url}/status`)).json()) as object
    const control = {
      kind: expect.stringContaining('etcd at'),
      scope: 'fleet',
      connected: true,
      node: 'a',
      published: 1,
      live: 1,
      revision: expect.stringMatching(/^\d+$/),
      overrides: 0,
      blocks: 0,
    }
    expect(page).toMatchObject({ control })
    expect((await call('GET', '/v1/status')).body).toMatchObject({ control, scope: 'fleet' })
    await until('it has reported', async () => {
      const { nodes } = (await call('GET', '/v1/nodes')).body
      return JSON.stringify(nodes).includes('"version":1')
    })
  })

  test('entries that are not valid are problems, hide no others, and can be replaced', async () => {
    const options = fleet()
    const { call, check } = await startAdminNode('a', options)
    const put = (key: string, text: string) => etcd.ctl('put', `${options.prefix}${key}`, text)
    const override = { limit: 'api', key: ['acme'], set: { limit: 500 }, for: '1h', why: 'a test' }
    const broken = overrideKey('api', ['acme'])
    await put(broken, 'not an entry')
    await put(SWITCH_KEY, 'not a switch')
    const other = { ...override, key: ['other'] }
    expect((await call('PUT', '/v1/overrides', { body: other })).status).toBe(200)
    await until('both are problems', async () => {
      const { control } = (await call('GET', '/v1/status')).body as { control: object }
      const text = JSON.stringify(control)
      return text.includes(broken.slice(0, -20)) && text.includes(SWITCH_KEY)
    })
    const { overrides } = (await call('GET', '/v1/overrides')).body
    expect(overrides).toMatchObject([{ key: ['other'] }])
    expect((await call('GET', '/v1/switch')).body).toMatchObject({ switch: { limits: 'on' } })
    expect((await call('GET', '/v1/now')).status).toBe(200)
    expect((await call('PUT', '/v1/overrides', { body: override })).status).toBe(200)
    await until('it is replaced', async () => (await check({ organisation: 'acme' })).limit === 500)
  })

  test('starts without etcd, with the local file', async () => {
    const options = { endpoints: ['http://127.0.0.1:1'], prefix: newPrefix() }
    const { call, check } = await startAdminNode('a', options)
    expect((await check({ organisation: 'acme' })).limit).toBe(2)
    const { status, body } = await call('GET', '/v1/overrides')
    expect({ status, detail: body.detail }).toMatchObject({
      status: 503,
      detail: expect.stringContaining('The control store'),
    })
  })
})
