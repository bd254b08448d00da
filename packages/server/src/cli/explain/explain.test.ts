import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { BOOTSTRAP, startAdminService } from '../../admin/admin-contract.ts'
import { runCli } from '../cli.ts'

const folder = mkdtempSync(join(tmpdir(), 'tidegate-explain-'))

afterAll(() => rmSync(folder, { recursive: true, force: true }))

const sections = `
upstreams:
  api: { targets: [http://127.0.0.1:1] }
  shop: { targets: [http://127.0.0.1:2] }
routes:
  - { match: { host: '*.shop.example' }, upstream: shop }
  - { match: { path: /v1/** }, upstream: api }
ipLists: { deny: [203.0.113.0/24], allow: [198.51.100.0/24] }
`

const limits = `
limits:
  - name: pair
    match: { path: /v1/pay/** }
    key: [apiKey, route]
    otherwise: { key: user, otherwise: [ip, path] }
    limit: 100
    per: 10s
    algorithm: slidingWindow
  - { name: named, match: { path: /v1/me }, key: user, otherwise: deny, limit: 5, per: 1m }
  - { name: closed, match: { path: /v1/closed }, key: ip, limit: 0, per: 1h }
  - { name: dear, match: { path: /v1/dear }, key: ip, limit: 5, per: 90s, cost: 6 }
  - name: daily
    key: ip
    algorithm: fixedWindow
    limit: 9
    per: day
    timeZone: Europe/Berlin
  - { name: slots, key: everyone, algorithm: concurrency, limit: 3, ttl: 30s }
`

async function explain(args: readonly string[], policy = sections + limits): Promise<string> {
  const file = join(folder, 'tidegate.yaml')
  writeFileSync(file, policy)
  let printed = ''
  const print = (text: string) => {
    printed += text
  }
  await runCli(['explain', '--config', file, ...args], {
    environment: {},
    stdout: print,
    stderr: print,
  })
  return printed
}

describe('the verdict of tidegate explain', () => {
  const keys = 'auth: { apiKeys: { secret: { env: S }, file: keys.yaml, required: true } }\n'
  const tokens = 'auth: { jwt: { jwksUrl: https://a.example/keys, required: true } }\n'
  writeFileSync(join(folder, 'keys.yaml'), '[]\n')

  test.for([
    [['--path', '/v1/x'], '', 'admitted: while the limits below have units left'],
    [['--path', '/v1/me', '--user', 'ada'], '', 'admitted: while the limits below'],
    [['--path', '/v1/me'], '', 'refused with 401 by named: there is no key (user)'],
    [
      ['--path', '/v1/closed'],
      '',
      'refused with 429 by closed: the cost is above the capacity of the limit',
    ],
    [
      ['--path', '/v1/dear'],
      '',
      'refused with 429 by dear: the cost is above the capacity of the limit',
    ],
    [['--path', '/v2'], '', 'refused with 404: no route leads to an upstream'],
    [
      ['--ip', '203.0.113.9', '--path', '/v1/x'],
      '',
      'refused with 403: the address is on the deny',
    ],
    [['--ip', '198.51.100.9', '--path', '/v1/closed'], '', 'admitted: the address is on the allow'],
    [['--path', '/health'], '', 'answered: by the gateway itself, without limits'],
    [['--path', '/v1/closed'], 'enabled: false\n', 'admitted: the policy is turned off'],
    [['--path', '/v1/x'], keys, 'refused with 401: auth.apiKeys.required: there is no API key'],
    [['--path', '/v1/x'], tokens, 'refused with 401: auth.jwt.required: there is no bearer token'],
    [['--path', '/v1/x', '--user', 'ada'], tokens, 'admitted: while the limits below'],
  ] as const)('%j with %j', async ([args, more, verdict]) => {
    expect(await explain(args, more + sections + limits)).toContain(`\nverdict: ${verdict}`)
  })
})

describe('tidegate explain', () => {
  test('names the route, or the only upstream', async () => {
    expect(await explain(['--path', '/v1/x'])).toContain('\nroute: routes[1] to api\n')
    const shop = ['--path', '/v1/x', '--header', 'Host: A.Shop.Example:8443']
    expect(await explain(shop)).toContain('\nroute: routes[0] to shop\n')
    expect(await explain(['--path', '/v2'])).toContain('\nroute: none\n')
    const one = `upstreams: { api: { targets: [http://127.0.0.1:1] } }\n${limits}`
    expect(await explain([], one)).toContain('\nroute: the only upstream, api\n')
  })

  test('shows keys as they were given and times with their unit', async () => {
    const path = ['--path', '/v1/pay/7', '--ip', '192.0.2.1']
    const text = await explain([...path, '--header', 'x-api-key: k'])
    expect(text).toContain(
      '  pair: 100 per 10s (slidingWindow); costs 1\n    key [apiKey, route]: ',
    )
    expect(text).toMatch(/key \[apiKey, route\]: [\w-]{43}, \/v1\/pay\/\*\*\n/)
    expect(text).toContain('  daily: 9 per day in Europe/Berlin (fixedWindow)')
    expect(text).toContain('  slots: 3 at once, each for up to 30s (concurrency)')
    expect(await explain([...path, '--user', 'ada'])).toContain('    key user: ada, because')
    expect(await explain(path)).toContain('    key [ip, path]: 192.0.2.1, /v1/pay/7, because')
    const dear = await explain(['--path', '/v1/dear'])
    expect(dear).toContain('  dear: 5 per 90s, burst 5 (tokenBucket); costs 6')
    const long = await explain([...path, '--user', 'a'.repeat(200)])
    expect(long).toMatch(/key user: digest [\w-]{43}, because/)
  })

  test('has a heading for limits that refuse, apart from those that do not apply', async () => {
    const text = await explain(['--path', '/v1/me'])
    expect(text).toContain('These refuse it with 401:\n  named: there is no key (user)')
    expect(text).toMatch(/These do not apply:\n {2}pair: the path does not match/)
    expect(text).not.toMatch(/These do not apply:[\s\S]*named/)
  })

  test('gives verdict, route and keys as JSON', async () => {
    const text = await explain(['--json', '--path', '/v1/me', '--ip', '192.0.2.1'])
    expect(JSON.parse(text)).toMatchObject({
      verdict: { outcome: 'refused', status: 401, by: 'named' },
      route: { index: 1, upstream: 'api' },
      limits: expect.arrayContaining([
        expect.objectContaining({ name: 'named', applies: false, refuses: true }),
        expect.objectContaining({ name: 'daily', applies: true, keyParts: ['192.0.2.1'] }),
      ]),
    })
  })
})

describe('tidegate explain of a running node', () => {
  test('names the winners and the losers, in the order of the documentation', async () => {
    const policy = `
upstreams: { api: { targets: ['http://127.0.0.1:9'] } }
tiers: { names: [free, premium], default: free }
ipLists: { allow: [198.51.100.9] }
limits:
  - name: api
    key: organisation
    otherwise: skip
    limit: 2
    per: 1h
    tiers: { premium: { limit: 4 } }
overrides: [{ limit: api, key: acme, set: { limit: 3 } }]
`
    const { url, call } = await startAdminService({ policy })
    const explained = async (...args: readonly string[]) => {
      let text = ''
      const print = (part: string) => {
        text += part
      }
      await runCli(['explain', '--admin', url, ...args], {
        environment: { TIDEGATE_TOKEN: BOOTSTRAP },
        stdout: print,
        stderr: print,
      })
      return text
    }
    const acme = ['--organisation', 'acme', '--tier', 'premium']
    expect(await explained(...acme)).toContain('of an override; costs 1')
    expect(await explained(...acme)).toContain('wins over: the tier, the limit')
    expect(await explained(...acme)).toContain('Live rules: on this node only')
    const key = { limit: 'api', key: ['acme'], for: '1h', why: 'x' }
    await call('PUT', '/v1/overrides', { body: { ...key, set: { limit: 9 } } })
    expect(await explained(...acme)).toContain(
      '9 per 1h, burst 9 (tokenBucket), of a live override',
    )
    expect(await explained(...acme)).toContain('wins over: the override, the tier, the limit')
    const ip = ['--ip', '198.51.100.9']
    expect(await explained(...ip)).toContain('admitted: the address is on the allow list')
    const block = { kind: 'ip', value: '198.51.100.9', for: '1h', why: 'x' }
    await call('PUT', '/v1/blocks', { body: block })
    expect(await explained(...ip)).toMatch(
      /refused with 403: .* wins over the allow list of ipList/,
    )
    await call('PUT', '/v1/switch', { body: { limits: 'off', why: 'x', for: '1h' } })
    expect(await explained(...acme)).toContain('switch: limits off, blocks on, until')
    expect(await explained(...acme)).toContain('admitted: the switch is off')
    expect(await explained(...ip)).toContain('refused with 403')
    const wrong = await explained('--domain', 'shop', '--entry', 'user=ada')
    expect(wrong).toContain("422: domain, descriptors: only a service with Envoy's files has them")
  })
})
