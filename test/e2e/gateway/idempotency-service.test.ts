/** Idempotency keys of a whole service: what operators see of them, and can do with them. */

import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { startAdminService } from '../../../packages/server/src/admin/admin-contract.ts'
import { startRedis } from '../../support/servers/redis.ts'
import { until } from '../../support/servers/until.ts'
import { startUpstream } from './test-upstream.ts'

interface AuditRecord {
  readonly action: string
  readonly reason?: string
  readonly target: object
}

async function serve(more: object = {}) {
  let runs = 0
  const upstream = await startUpstream((_request, response) => void response.end(`run ${++runs}`))
  const policy = {
    gateway: { listen: { host: '127.0.0.1', port: 0 } },
    upstreams: { api: { targets: [upstream.url] } },
    idempotency: { scope: { header: 'x-tenant' }, otherwise: 'ip' },
    ...{ limits: [], ...more },
  }
  const service = await startAdminService({
    policy: Object.entries(policy)
      .map(([section, value]) => `${section}: ${JSON.stringify(value)}`)
      .join('\n'),
    parts: { gateway: { instance: undefined } },
  })
  const url = `${service.service.gateway?.url}/orders`
  const post = async (key: string, body = 'one', tenant: string | undefined = 'acme') => {
    const named = tenant === undefined ? undefined : { 'x-tenant': tenant }
    const headers = { 'idempotency-key': key, 'content-type': 'text/plain', ...named }
    const response = await fetch(url, { method: 'POST', headers, body })
    return { status: response.status, text: await response.text() }
  }
  const ask = (action: 'look-up' | 'forget', body: object, token?: string) => {
    const call = { body, ...(token === undefined ? undefined : { token }) }
    return service.call('POST', `/v1/idempotency-keys/${action}`, call)
  }
  return { ...service, post, ask }
}

test('an operator looks a key up, and forgets it, with a record of both', async () => {
  const { post, ask, call, events } = await serve()
  const key = randomUUID()
  const asked = { sender: ['acme'], key }
  expect((await ask('look-up', asked)).body).toEqual({ key: null })
  expect((await post(key)).text).toBe('run 1')
  const shown = await ask('look-up', { sender: ['acme'], key: `"${key}"` })
  expect(shown.body).toMatchObject({ key: { state: 'done', leaseLeftMs: 0 } })
  expect(shown.text).not.toContain('run 1')
  const forgotten = await ask('forget', { ...asked, why: 'a complaint' })
  expect(forgotten.body).toMatchObject({ before: { state: 'done' }, isForgotten: true })
  expect((await post(key)).text).toBe('run 2')
  const { body } = await call('GET', '/v1/audit')
  const [record] = body.records as readonly AuditRecord[]
  expect(record).toMatchObject({
    ...{ action: 'idempotency-key.forget', reason: 'a complaint' },
    target: { type: 'idempotency-key', keyHash: expect.stringMatching(/./) },
  })
  expect(JSON.stringify([body, events])).not.toContain(key)
})

test('a sender of `otherwise` has keys of its own', async () => {
  const { post, ask } = await serve()
  const key = randomUUID()
  await post(key, 'one', '')
  const sender = { sender: ['127.0.0.1'], key }
  expect((await ask('look-up', sender)).body).toEqual({ key: null })
  const { body } = await ask('look-up', { ...sender, otherwise: true })
  expect(body).toMatchObject({ key: { state: 'done' } })
})

test('a look-up needs the role, the parts of the sender and keys in the policy', async () => {
  const { ask, tokenFor } = await serve()
  const asked = { sender: ['acme'], key: 'one' }
  expect((await ask('look-up', asked, await tokenFor('read'))).status).toBe(403)
  const tooMany = await ask('look-up', { ...asked, sender: ['acme', 'eu'] })
  expect([tooMany.status, tooMany.text]).toEqual([422, expect.stringMatching(/got 2 parts/)])
  expect((await ask('forget', asked)).status).toBe(422)
  const without = await startAdminService()
  const call = { body: asked }
  expect((await without.call('POST', '/v1/idempotency-keys/look-up', call)).status).toBe(422)
})

test('requests with keys are counted by their outcome', async () => {
  const { post, url } = await serve()
  const key = randomUUID()
  for (const body of ['one', 'one', 'one', 'two']) await post(key, body)
  await post('not valid')
  const page = await (await fetch(`${url}/metrics`)).text()
  const counts = [...page.matchAll(/^tidegate_idempotency_(\w+)\{\w+="(\w+)"\} (\d+)$/gm)]
  expect(counts.map(([, name, label, value]) => `${name} ${label} ${value}`).sort()).toEqual([
    'in_flight executing 0',
    'in_flight waiting 0',
    'requests_total executed 1',
    'requests_total key_invalid 1',
    'requests_total key_reused 1',
    'requests_total replayed 2',
    'results_total kept 1',
  ])
})

test('while Redis is away, requests are refused, and the reasons are reported', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const store = { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`], deadline: '5s' }
  const { post, events, ask } = await serve({ store })
  const key = randomUUID()
  expect((await post(key)).status).toBe(200)
  redis.kill('SIGKILL')
  const isOpen = () =>
    events.some(
      (one) =>
        one.type === 'store' &&
        one.event.type === 'breaker' &&
        one.event.shard === 'keys' &&
        one.event.to === 'open',
    )
  await until('the breaker of the keys is open', async () => {
    expect((await post(key)).status).toBe(503)
    return isOpen()
  })
  expect(events.filter(({ type }) => type === 'idempotency')).toContainEqual(
    expect.objectContaining({ problem: 'unavailable' }),
  )
  const shown = await ask('look-up', { sender: ['acme'], key })
  expect([shown.status, shown.text]).toEqual([503, expect.stringMatching(/does not answer/)])
})
