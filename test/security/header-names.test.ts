/** Header fields that only the gateway sets: clients can neither remove nor forge them. */

import { describe, expect, test } from 'vitest'
import { askRaw } from '../e2e/gateway/raw-client.ts'
import { startTestGateway } from '../e2e/gateway/test-gateway.ts'
import { until } from '../support/servers/until.ts'
import { FrameClient, makeTls, requestFields } from './frame-client.ts'
import { type Answer, startRecordingUpstream } from './recording-upstream.ts'
import { valuesOf } from './request-parser.ts'

const limits = [{ name: 'client', key: 'ip', limit: 1_000, per: '1h', algorithm: 'fixedWindow' }]

async function start(gateway: object = {}, answer?: Answer) {
  const upstream = await startRecordingUpstream(answer)
  const policy = {
    gateway,
    upstreams: { api: { targets: [upstream.url] } },
    routes: [{ upstream: 'api', requestHeaders: { set: { 'x-internal-role': 'guest' } } }],
    limits,
  }
  return { upstream, gateway: await startTestGateway(policy) }
}

const get = (...fields: string[]) =>
  `${['GET / HTTP/1.1', 'Host: a.example', 'Connection: close', ...fields].join('\r\n')}\r\n\r\n`

const ours: Readonly<Record<string, string>> = {
  'x-forwarded-for': '127.0.0.1',
  'x-forwarded-host': 'a.example',
  'x-forwarded-proto': 'http',
  'x-real-ip': '127.0.0.1',
  'x-internal-role': 'guest',
  forwarded: 'for=127.0.0.1;host="a.example";proto=http',
  host: 'a.example',
}

describe('a Connection field that names', () => {
  const names = [
    ...Object.keys(ours),
    ...[
      'X-FORWARDED-FOR',
      'X_Forwarded_For',
      'x.real.ip',
      'x-forwarded-port',
      'x-forwarded-prefix',
    ],
    ...['x-tidegate-key', 'X-Tidegate-User', 'x_tidegate_organisation', 'x-api-key', 'X_API_KEY'],
    ...['authorization', 'cookie', 'content-length', 'transfer-encoding', 'content-type', 'te'],
  ]

  test.each(names)('%s removes nothing of ours', async (name) => {
    const { upstream, gateway } = await start()
    for (const list of [name, `close, ${name}`, `${name},close`, `x, ,\t${name} ,`]) {
      const text = get(`Connection: ${list}`, 'X-Api-Key: k', 'Authorization: Basic x', 'Cookie: c')
      expect([200, 400]).toContain((await askRaw(gateway.port, text)).status)
    }
    for (const request of upstream.requests) {
      for (const [field, value] of Object.entries(ours)) {
        expect(valuesOf(request, field)).toEqual([value])
      }
      expect(valuesOf(request, 'x-api-key')).toEqual(['k'])
      expect(valuesOf(request, 'authorization')).toEqual(['Basic x'])
      expect(valuesOf(request, 'cookie')).toEqual(['c'])
    }
    expect(upstream.ambiguities).toEqual([])
  })

  test('a field of the client removes that one and no other', async () => {
    const { upstream, gateway } = await start()
    await askRaw(gateway.port, get('Connection: X-Mine', 'X-Mine: 1', 'X-Mine-Too: 2'))
    expect(upstream.requests).toHaveLength(1)
    expect(valuesOf(upstream.requests[0] ?? { fields: [] }, 'x-mine')).toEqual([])
    expect(valuesOf(upstream.requests[0] ?? { fields: [] }, 'x-mine-too')).toEqual(['2'])
  })

  test('our rate limit fields does not remove them from an answer', async () => {
    const nominated = 'connection: X-RateLimit-Remaining, ratelimit, ratelimit-policy, close'
    const forged = 'x-ratelimit-remaining: 999999\r\nx-ratelimit-limit: 999999'
    const { gateway } = await start(
      {},
      () => `HTTP/1.1 200 OK\r\n${nominated}\r\n${forged}\r\ncontent-length: 0\r\n\r\n`,
    )
    const { headers } = await askRaw(gateway.port, get())
    expect(headers).toMatchObject({ 'x-ratelimit-remaining': '999', 'x-ratelimit-limit': '1000' })
    expect(headers['ratelimit-policy']).toContain('"client";q=1000')
  })
})

describe('another spelling of a field that is ours', () => {
  const separators = ['_', '.']
  const protectedNames = [
    ...['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-forwarded-port'],
    ...['x-real-ip', 'x-tidegate-key', 'x-tidegate-user', 'x-api-key', 'x-internal-role'],
    ...['x-forwarded-client-cert', 'x-tidegate-organisation', 'content-length'],
  ]
  const cases = [
    (name: string) => name,
    (name: string) => name.toUpperCase(),
    (name: string) =>
      name.replaceAll(/(^|[_.-])([a-z])/g, (_, dash, letter) => dash + letter.toUpperCase()),
  ]
  const aliases = protectedNames.flatMap((name) => {
    const first = name.indexOf('-')
    const spelled = [
      ...separators.map((separator) => name.replaceAll('-', separator)),
      `${name.slice(0, first)}_${name.slice(first + 1)}`,
      `${name.slice(0, first)}.${name.slice(first + 1)}`,
    ]
    return spelled.flatMap((alias) => cases.map((spell) => spell(alias)))
  })
  const plain = (name: string) => name.toLowerCase().replaceAll(/[_.-]+/g, '-')

  test("never reaches the upstream with the client's value", async () => {
    const { upstream, gateway } = await start()
    expect(new Set(aliases).size).toBeGreaterThan(100)
    for (const alias of new Set(aliases)) {
      const { status } = await askRaw(gateway.port, get(`${alias}: forged`))
      expect([200, 400]).toContain(status)
    }
    const forged = upstream.requests.flatMap(({ fields }) =>
      fields.filter(
        ([name, value]) => value.includes('forged') && protectedNames.includes(plain(name)),
      ),
    )
    expect(forged).toEqual([])
    expect(upstream.ambiguities).toEqual([])
  })

  test('never reaches the upstream over HTTP/2', async () => {
    const { tls } = makeTls()
    const { upstream, gateway } = await start({ tls })
    const client = await FrameClient.connect(gateway.port)
    const names = new Set(aliases.map((alias) => alias.toLowerCase()))
    const ids = [...names].map((alias) => client.request(requestFields('/', [alias, 'forged'])))
    await until('all are answered', () => ids.every((id) => client.isOver(id)))
    expect(upstream.requests.length).toBeGreaterThan(0)
    const forged = upstream.requests.flatMap(({ fields }) =>
      fields.filter(([, value]) => value.includes('forged')),
    )
    expect(forged).toEqual([])
  })

  test('of a field that a limit reads does not bypass the limit', async () => {
    const upstream = await startRecordingUpstream()
    const perTenant = { ...limits[0], key: { header: 'x-tenant' }, otherwise: 'skip' }
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url] } },
      limits: [perTenant],
    })
    for (const name of ['X_Tenant', 'x.tenant', 'X_TENANT']) {
      await askRaw(gateway.port, get(`${name}: someone`))
    }
    const passed = upstream.requests.flatMap(({ fields }) =>
      fields.filter(([name]) => plain(name) === 'x-tenant'),
    )
    expect(passed).toEqual([])
  })
})

describe('a field that pretends to be ours', () => {
  test.each([
    ...['X-Forwarded-For', 'x-forwarded-FOR', 'X-Forwarded-Proto', 'X-Forwarded-Host', 'Forwarded'],
    ...[
      'X-Real-IP',
      'X-Internal-Role',
      'X-Tidegate-Key',
      'X-Tidegate-User',
      'X-Tidegate-Certificate',
    ],
  ])('%s is replaced or dropped', async (name) => {
    const { upstream, gateway } = await start()
    await askRaw(gateway.port, get(`${name}: forged`, `${name}: forged too`))
    expect(upstream.requests).toHaveLength(1)
    expect(upstream.bytes.join('')).not.toContain('forged')
    for (const [field, value] of Object.entries(ours)) {
      expect(valuesOf(upstream.requests[0] ?? { fields: [] }, field)).toEqual([value])
    }
  })

  test('is dropped from the trailers of a request', async () => {
    const { upstream, gateway } = await start()
    const head = get('Transfer-Encoding: chunked').replace('GET', 'POST')
    const trailers = 'X-Forwarded-For: forged\r\nX-Tidegate-Key: forged\r\nHost: forged\r\n'
    await askRaw(gateway.port, `${head}1\r\na\r\n0\r\n${trailers}\r\n`)
    expect(upstream.requests).toMatchObject([{ body: 'a' }])
    expect(upstream.bytes.join('')).not.toContain('forged')
  })
})
