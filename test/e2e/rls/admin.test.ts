/** The admin API of a rate limit service with Envoy's files. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { startRls } from '../../../packages/server/src/app/rls-service.ts'
import { runCli } from '../../../packages/server/src/cli/cli.ts'
import { rlsSettings } from '../../../packages/server/src/rls/settings.ts'
import { until } from '../../support/servers/until.ts'
import { request } from './rls-client.ts'
import { startTestRls } from './rls-server.ts'

const TOKEN = 'the-first-token-of-the-tests-0123456789'

const files = `domain: shop
descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 2 }
  - key: remote_address
    rate_limit: { unit: second, requests_per_unit: 100 }
  - key: plan
    value: gold
    rate_limit: { unlimited: true }
`

async function setup(variables: Record<string, string> = {}) {
  const environment = { TIDEGATE_ADMIN_PORT: '0', TIDEGATE_ADMIN_TOKEN: TOKEN, ...variables }
  const { admin } = rlsSettings(environment).settings
  const service = await startTestRls(files, { admin })
  const url = `http://127.0.0.1:${service.rls.addresses.admin?.port}`
  const code = async (...entries: string[]) =>
    (await service.client.ask(request('shop', entries))).overall_code
  const call = async (method: string, path: string, body?: object) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify({ why: 'a test', ...body }) }),
    })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
  const tidegate = async (line: string) => {
    let text = ''
    const write = (part: string) => {
      text += part
    }
    const terminal = { environment: { TIDEGATE_ADMIN: url, TIDEGATE_TOKEN: TOKEN } }
    const args = line.replace('URL', url).split(' ')
    const exit = await runCli(args, { ...terminal, stdout: write, stderr: write })
    return { exit, text }
  }
  return { ...service, url, code, call, tidegate }
}

const ada = { limit: 'shop', key: ['user=ada'] }

describe('the page of metrics', () => {
  test('counts calls and rules by the names of a policy, not by values of requests', async () => {
    const { code, url } = await setup()
    for (let at = 0; at < 3; at++) await code('user=ada')
    await code('user=grace')
    const page = await (await fetch(`${url}/metrics`)).text()
    const sampleOf = (series: string) => {
      const line = page.split('\n').find((one) => one.startsWith(`${series} `))
      return line && Number(line.split(' ')[1])
    }
    const calls = (outcome: string) =>
      sampleOf(`tidegate_decisions_total{door="rls",outcome="${outcome}",by="memory"}`)
    expect([calls('allowed'), calls('denied')]).toEqual([3, 1])
    const rule = (outcome: string) =>
      sampleOf(
        'tidegate_limit_decisions_total' +
          `{door="rls",limit="shop.user",mode="enforce",outcome="${outcome}"}`,
      )
    expect([rule('allowed'), rule('denied')]).toEqual([3, 1])
    expect(sampleOf('tidegate_policy_limits')).toBe(3)
    expect(sampleOf('tidegate_policy_loads_total{result="applied"}')).toBe(1)
    expect(page).not.toMatch(/ada|grace/)
  })
})

describe('the admin API of a rate limit service', () => {
  test('changes decisions with the next call, also of plans that were kept', async () => {
    const { code, tidegate } = await setup()
    expect([await code('user=ada'), await code('user=ada')]).toEqual(['OK', 'OK'])
    expect(await code('user=ada')).toBe('OVER_LIMIT')
    const set = await tidegate('override set user=ada --name shop --limit 4 --for 1h --why x')
    expect(set.text).toMatch(/^override of shop set until .*, on this node only\n$/)
    expect([await code('user=ada'), await code('user=ada')]).toEqual(['OK', 'OK'])
    expect(await code('user=ada')).toBe('OVER_LIMIT')
    await tidegate('override remove user=ada --name shop --why x')
    await tidegate('counter reset user=ada --name shop --why x')
    expect([await code('user=ada'), await code('user=ada')]).toEqual(['OK', 'OK'])
    expect(await code('user=ada')).toBe('OVER_LIMIT')
  })

  test('lists the descriptors that are refused most, as commands take them', async () => {
    const { code, call } = await setup()
    for (let asked = 0; asked < 5; asked++) await code('user=ada')
    for (let asked = 0; asked < 3; asked++) await code('user=bob')
    const { status, body } = await call('GET', '/v1/top?by=refused&limit=shop')
    expect(status).toBe(200)
    expect(body.keys).toEqual([
      { limit: 'shop', key: 'user=ada', count: 3, error: 0 },
      { limit: 'shop', key: 'user=bob', count: 1, error: 0 },
    ])
  })

  test('shows, refunds and resets counters by domain and descriptor', async () => {
    const { code, call, tidegate } = await setup()
    await code('user=ada')
    expect((await tidegate('counter show user=ada')).text).toMatch(/^shop: 1 used, 1 left/)
    await code('user=ada')
    const refund = await call('POST', '/v1/counters/refund', { ...ada, units: 1 })
    expect(refund.body).toMatchObject({ counter: { limit: 'shop', used: 1, left: 1 } })
    expect([await code('user=ada'), await code('user=ada')]).toEqual(['OK', 'OVER_LIMIT'])
    const reset = await call('POST', '/v1/counters/reset', ada)
    expect(reset.body).toMatchObject({ before: { used: 2 }, counter: { used: 0 } })
    expect(await code('user=ada')).toBe('OK')
  })

  test('blocks an address, a user and a descriptor, until they are unblocked', async () => {
    const { code, tidegate } = await setup()
    expect(await code('remote_address=192.0.2.7')).toBe('OK')
    await tidegate('block cidr 192.0.2.0/24 --for 1h --why x')
    expect(await code('remote_address=192.0.2.7')).toBe('OVER_LIMIT')
    expect(await code('remote_address=198.51.100.1')).toBe('OK')
    await tidegate('unblock cidr 192.0.2.0/24 --why x')
    expect(await code('remote_address=192.0.2.7')).toBe('OK')
    await tidegate('block user eve --for 1h --why x')
    await tidegate('block key plan=gold --name shop --for 1h --why x')
    expect(await code('user=eve')).toBe('OVER_LIMIT')
    expect(await code('plan=gold')).toBe('OVER_LIMIT')
    expect(await code('user=ada')).toBe('OK')
  })

  test('obeys the switch, which leaves blocks as they are', async () => {
    const { code, tidegate } = await setup()
    await tidegate('block user eve --for 1h --why x')
    const all = ['user=ada', 'user=ada', 'user=ada', 'user=ada']
    const codes = async () => {
      const found: string[] = []
      for (const entry of all) found.push(await code(entry))
      return found.join()
    }
    await tidegate('switch off --for 1h --why x')
    expect(await codes()).toBe('OK,OK,OK,OK')
    expect(await code('user=eve')).toBe('OVER_LIMIT')
    expect((await tidegate('counter show user=ada')).text).toContain('0 used')
    await tidegate('switch shadow --for 1h --why x')
    expect(await codes()).toBe('OK,OK,OK,OK')
    expect((await tidegate('counter show user=ada')).text).toContain('2 used')
    await tidegate('switch on --why x')
    expect(await code('user=ada')).toBe('OVER_LIMIT')
  })

  test('ends a switch and a block at their times', async () => {
    const { code, call } = await setup()
    const soon = new Date(Date.now() + 1_000).toISOString()
    await call('PUT', '/v1/switch', { limits: 'on', blocks: 'off', expires: soon })
    await call('PUT', '/v1/blocks', { kind: 'user', value: 'eve', for: '1h' })
    await call('PUT', '/v1/blocks', { kind: 'user', value: 'ada', expires: soon })
    await until('the block of eve holds', async () => (await code('user=eve')) === 'OVER_LIMIT')
    await until('ada is free', async () => (await code('user=ada')) === 'OK')
  })

  test('explains which rule wins and which loses', async () => {
    const { call, tidegate } = await setup()
    const explain = async (...descriptors: string[][]) =>
      (await call('POST', '/v1/explain', { why: undefined, domain: 'shop', descriptors })).body
    await call('PUT', '/v1/overrides', { ...ada, set: { limit: 9, per: '1m' }, for: '1h' })
    await call('PUT', '/v1/blocks', { kind: 'user', value: 'eve', for: '1h' })
    expect(await explain(['user=ada'], ['user=bob'])).toMatchObject({
      verdict: { outcome: 'admitted' },
      descriptors: [
        { rule: 'shop.user', source: 'live override', limit: { limit: 9 }, instead: ['limit'] },
        { rule: 'shop.user', source: 'limit', limit: { limit: 2 }, instead: [] },
      ],
    })
    expect(await explain(['user=eve'])).toMatchObject({
      verdict: { outcome: 'refused', reason: expect.stringMatching(/^a live block by user, /) },
      descriptors: [{ block: { kind: 'user', instead: 'the limits' } }],
    })
    const shown = await tidegate('explain --domain shop --entry user=ada --admin URL')
    expect(shown.text).toMatch(/limit: 9 per 1m .*; the live override \S+ wins over the limit\n/)
    expect(shown.text).toContain('Live rules: on this node only')
    const wrong = await call('POST', '/v1/explain', { why: undefined })
    expect(wrong).toMatchObject({ status: 422, body: { detail: expect.stringMatching(/^domain/) } })
  })

  test.for<[object, RegExp]>([
    [{ ...ada, limit: 'none' }, /no domain of the configuration is named "none"/],
    [{ ...ada, key: ['plan=gold'] }, /no rule of shop counts this descriptor/],
    [{ ...ada, key: ['=x'] }, /allowed is a text such as remote_address=/],
    [{ ...ada, set: { limit: 1, burst: 3 } }, /./],
  ])('refuses the override %j in words', async ([change, detail]) => {
    const { call } = await setup()
    const body = { set: { limit: 5 }, for: '1h', ...change }
    const answer = await call('PUT', '/v1/overrides', body)
    const isKept = 'set' in change
    expect(answer.status).toBe(isKept ? 200 : 422)
    if (!isKept) expect(answer.body.detail).toMatch(detail)
  })

  test('keeps its changes over another configuration and a restart', async () => {
    const { code, call, write, folder, rls } = await setup({})
    await call('PUT', '/v1/overrides', { ...ada, set: { limit: 3 }, for: '1h' })
    write('config.yaml', files.replace('requests_per_unit: 2', 'requests_per_unit: 1'))
    await until('the change is live', async () => {
      const { body } = await call('POST', '/v1/counters/look-up', {
        limit: 'shop',
        key: ['user=b'],
        why: undefined,
      })
      return (body.counters as { left: number }[])[0]?.left === 1
    })
    const codes = [await code('user=ada'), await code('user=ada'), await code('user=ada')]
    expect(codes).toEqual(['OK', 'OK', 'OK'])
    expect(await code('user=ada')).toBe('OVER_LIMIT')
    expect(rls.description).toContain('admin on 127.0.0.1:')
    const state = join(folder, '../state.json')
    const admin = rlsSettings({
      TIDEGATE_ADMIN_PORT: '0',
      TIDEGATE_ADMIN_TOKEN: TOKEN,
      TIDEGATE_ADMIN_STATE: state,
    }).settings.admin
    for (const expected of [0, 1]) {
      const again = await startRls({
        ...rlsSettings({}).settings,
        ...quiet,
        configDirectory: folder,
        admin,
      })
      const address = `http://127.0.0.1:${again.addresses.admin?.port}/v1/blocks`
      const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' }
      const { blocks } = (await (await fetch(address, { headers })).json()) as { blocks: object[] }
      expect(blocks).toHaveLength(expected)
      const body = JSON.stringify({ kind: 'user', value: 'eve', for: '1h', why: 'a test' })
      await fetch(address, { method: 'PUT', headers, body })
      await again.close()
    }
  })
})

const anyPort = { host: '127.0.0.1', port: 0 }
const quiet = { grpc: anyPort, http: undefined, debug: undefined, drainMs: 0 }

describe('the settings of the admin API', () => {
  test('start nothing by default, and only pages without a credential', async () => {
    expect(rlsSettings({}).settings.admin).toBeUndefined()
    const { url } = await setup({ TIDEGATE_ADMIN_TOKEN: '' })
    expect((await fetch(`${url}/ready`)).status).toBe(200)
    expect((await fetch(`${url}/v1/status`)).status).toBe(404)
  })

  test.for<[Record<string, string>, RegExp]>([
    [{ TIDEGATE_ADMIN_HOST: '0.0.0.0' }, /in the clear/],
    [{ TIDEGATE_ADMIN_TOKEN: 'short' }, /TIDEGATE_ADMIN_TOKEN: the secret is too short/],
    [{ TIDEGATE_ADMIN_TOKEN: '', TIDEGATE_ADMIN_TOKEN_FILE: '/none' }, /_FILE: the file is empty/],
  ])('%j do not start', async ([variables, message]) => {
    await expect(setup(variables)).rejects.toThrow(message)
  })

  test.for<[Record<string, string>, RegExp]>([
    [{ TIDEGATE_ADMIN_TOKEN: TOKEN }, /TOKEN: its value .* only with TIDEGATE_ADMIN_PORT/],
    [{ TIDEGATE_ADMIN_PORT: 'x' }, /TIDEGATE_ADMIN_PORT: "x" is not allowed/],
    [{ TIDEGATE_ADMIN_PORT: '1', TIDEGATE_ADMIN_TLS_CERT: 'c' }, /TIDEGATE_ADMIN_TLS_KEY/],
    [{ TIDEGATE_ADMIN_PORT: '1', TIDEGATE_ADMIN_CERTIFICATES: 'a=boss' }, /a=boss/],
    [{ TIDEGATE_ADMIN_PORT: '1', TIDEGATE_ADMIN_CERTIFICATES: 'a=read' }, /only with .*TLS_CA/],
    [
      { TIDEGATE_ADMIN_PORT: '1', TIDEGATE_ADMIN_TOKEN: TOKEN, TIDEGATE_ADMIN_TOKEN_FILE: 'f' },
      /only without TIDEGATE_ADMIN_TOKEN/,
    ],
  ])('%j are refused in words, without the token', ([variables, message]) => {
    expect(() => rlsSettings(variables)).toThrow(message)
    expect(() => rlsSettings(variables)).not.toThrow(TOKEN)
  })

  test('take the token from a file', async () => {
    const { folder } = await setup()
    const file = join(folder, '../token')
    writeFileSync(file, `${TOKEN}\n`)
    const { url } = await setup({ TIDEGATE_ADMIN_TOKEN: '', TIDEGATE_ADMIN_TOKEN_FILE: file })
    const headers = { authorization: `Bearer ${TOKEN}` }
    expect((await fetch(`${url}/v1/status`, { headers })).status).toBe(200)
  })
})
