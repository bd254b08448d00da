import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import type { Environment } from '../app/environment.ts'
import { runCli } from './cli.ts'

const folder = mkdtempSync(join(tmpdir(), 'tidegate-cli-'))

afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function run(args: readonly string[], environment: Environment = {}) {
  let out = ''
  let err = ''
  const code = await runCli(args, {
    environment,
    stdout: (text) => {
      out += text
    },
    stderr: (text) => {
      err += text
    },
  })
  return { code, out, err }
}

function policyFile(text: string): string {
  const file = join(folder, `${Math.random().toString(36).slice(2)}.yaml`)
  writeFileSync(file, text)
  return file
}

const good = `
upstreams: { api: { targets: [http://127.0.0.1:8081] } }
limits:
  - name: per-key
    match: { methods: [POST], path: /v1/payments/** }
    key: apiKey
    otherwise: ip
    limit: 100
    per: 1s
  - { name: reads, match: { methods: [GET] }, key: ip, otherwise: deny, limit: 5, per: 1m }
  - { name: later, mode: off, key: ip, otherwise: deny, limit: 5, per: 1m }
`

describe('tidegate', () => {
  test('tells its commands, and what each takes', async () => {
    const { out, code } = await run([])
    expect(code).toBe(0)
    for (const name of ['gateway', 'serve', 'rls', 'check', 'explain', 'version', 'help']) {
      expect(out).toMatch(new RegExp(`^ {2}${name}\\b`, 'm'))
    }
    expect((await run(['help', 'gateway'])).out).toContain('--workers N')
    expect((await run(['gateway', '--help'])).out).toContain('--workers N')
    expect((await run(['--version'])).out).toMatch(/^tidegate \d+\.\d+\.\d+\n$/)
  })

  test('refuses what it does not know', async () => {
    expect(await run(['gatway'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('unknown command: gatway'),
    })
    expect(await run(['check', '--confg', 'x'])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/'--confg'.*\n.*See: tidegate check --help/s),
    })
    expect((await run(['check'])).err).toContain('--config FILE is missing')
    expect((await run(['gateway', '--workers', 'many'])).err).toContain('a number from 1 to 256')
  })

  test('refuses workers that would each admit the whole limit', async () => {
    const { code, err } = await run(['gateway', '--workers', '2', '--config', policyFile(good)])
    expect({ code, err }).toMatchObject({ code: 1, err: expect.stringContaining('needs a store') })
  })
})

describe('tidegate gateway', () => {
  test('names the setting of the port that is taken, and a host that is none', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    const listen = 'gateway: { listen: { host: 127.0.0.1, port: 0 } }\n'
    const admin = policyFile(`${good}${listen}admin: { listen: { port: ${port} } }\n`)
    expect((await run(['gateway', '--config', admin])).err).toContain(
      `port ${port} is in use; stop what listens there, or set another port (admin.listen.port)`,
    )
    other.close()
    const nowhere = policyFile(`${good}${listen.replace('127.0.0.1', 'nowhere.invalid')}`)
    expect(await run(['gateway', '--config', nowhere])).toMatchObject({
      code: 1,
      err: 'tidegate gateway: no address is known for nowhere.invalid\n',
    })
  })
})

describe('tidegate serve', () => {
  test('needs a policy with something to serve', async () => {
    expect(await run(['serve'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('--config FILE is missing'),
    })
    const limits = 'limits: [{ name: a, key: ip, limit: 1, per: 1s }]\n'
    expect(await run(['serve', '--config', policyFile(limits)])).toMatchObject({
      code: 1,
      err: expect.stringContaining('upstreams, decisionApi and rateLimitService'),
    })
  })
})

describe('tidegate rls', () => {
  test('takes a policy or a folder, not both', async () => {
    const { code, err } = await run(['rls', '--config', policyFile(good), '--config-dir', folder])
    expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining('exclude') })
  })

  test('refuses an invalid policy, and files that it cannot use', async () => {
    const wrong = policyFile('limits: [{ name: a, limit: many }]\n')
    expect(await run(['rls', '--config', wrong])).toMatchObject({
      code: 1,
      err: expect.stringContaining('limits[0].limit'),
    })
    const tls = '{ cert: none.pem, key: none.pem }'
    const section = `rateLimitService: { listen: { port: 0 }, tls: ${tls} }\n`
    expect(await run(['rls', '--config', policyFile(good + section)])).toMatchObject({
      code: 1,
      err: expect.stringContaining('rateLimitService.tls.cert none.pem: there is no such file'),
    })
  })
})

describe('tidegate check', () => {
  test('says that a policy is valid', async () => {
    const file = policyFile(good)
    expect(await run(['check', '--config', file])).toEqual({
      code: 0,
      out: `${file} is valid: 3 limits, 0 routes, 1 upstream, store memory\n`,
      err: '',
    })
  })

  test('names line, field, value and what is allowed', async () => {
    const file = policyFile(good.replace('per: 1s', 'per: 5 parsecs'))
    const { code, err } = await run(['check', '--config', file])
    expect(code).toBe(1)
    expect(err).toMatch(/\.yaml:9:10 limits\[0\]\.per: "5 parsecs" is not allowed; allowed: .*10s/)
  })

  test('calls the file as it was called', async () => {
    const file = policyFile('version: 2\nlimits: []\n')
    const { err } = await run(['check', '--config', file])
    expect(err).toBe(
      `tidegate check: the policy has a problem:\n` +
        `${file}:1:10 version: 2 is not allowed; allowed: 1\n`,
    )
  })

  test('does not pretend that there are no more problems than it shows', async () => {
    const file = policyFile(`limits: [${'1, '.repeat(200)}]`)
    expect((await run(['check', '--config', file])).err).toContain('has at least 20 problems:')
  })

  test.for([
    ['auth: { apiKeys: { secret: { env: S }, file: NAME } }', 'a: [', ':1:5 flow sequence'],
    ['auth: { apiKeys: { secret: { env: S }, file: NAME } }', '- { hmac: x }', 'hexadecimal'],
    ['auth: { jwt: { jwksFile: NAME } }', '{', 'auth.jwt.jwksFile'],
    ['gateway: { tls: { cert: NAME, key: NAME } }', 'no certificate', 'gateway.tls.cert'],
    ['store: { mode: memory, tls: { ca: none.pem } }', '', 'store.tls, certificates none.pem'],
  ] as const)(
    '%s with the file %j is refused, by the gateway too',
    async ([section, text, why]) => {
      const named = policyFile(text)
      const file = policyFile(`${good}\n${section.replaceAll('NAME', named)}\n`)
      for (const command of ['check', 'gateway']) {
        const { code, err } = await run([command, '--config', file])
        expect({ code, err }).toMatchObject({ code: 1, err: expect.stringContaining(why) })
        expect(err.split('\n').length).toBeLessThanOrEqual(3)
      }
    },
  )

  test('says that a file is not there', async () => {
    const { code, err } = await run(['check', '--config', join(folder, 'none.yaml')])
    expect({ code, err }).toMatchObject({ code: 1, err: expect.stringContaining('no such file') })
  })
})

describe('tidegate rls-check', () => {
  test('counts in words', async () => {
    const directory = mkdtempSync(join(folder, 'rls-'))
    writeFileSync(join(directory, 'a.yaml'), 'domain: a\ndescriptors: []\n')
    const valid = `${directory} is valid: `
    expect((await run(['rls-check', directory])).out).toBe(`${valid}1 file, 1 domain, 0 rules\n`)
    writeFileSync(join(directory, 'b.yaml'), 'domain: b\ndescriptors: []\n')
    expect((await run(['rls-check', directory])).out).toBe(`${valid}2 files, 2 domains, 0 rules\n`)
  })
})

describe('tidegate explain', () => {
  const request = ['--method', 'POST', '--path', '/v1/payments/7', '--header', 'x-api-key: k']

  test('tells which limits apply and why the others do not', async () => {
    const { out, code } = await run(['explain', '--config', policyFile(good), ...request])
    expect(code).toBe(0)
    expect(out).toContain('POST /v1/payments/7 from 127.0.0.1')
    expect(out).toMatch(/per-key: 100 per 1s, burst 100 \(tokenBucket\); costs 1\n {4}key apiKey/)
    expect(out).toMatch(/These do not apply:\n {2}reads: .*method.*\n {2}later: its mode is off/)
  })

  test('tells a fallback of the key', async () => {
    const file = policyFile(good)
    const { out } = await run(['explain', '--config', file, ...request.slice(0, 4)])
    expect(out).toContain('key ip: 127.0.0.1, because the first kind of key is missing')
  })

  test('gives the same as JSON', async () => {
    const { out } = await run(['explain', '--json', '--config', policyFile(good), ...request])
    const names = (JSON.parse(out) as { limits: { name: string }[] }).limits.map(({ name }) => name)
    expect(names).toEqual(['per-key', 'reads', 'later'])
  })

  test('matches the path that would be forwarded', async () => {
    const file = policyFile(good)
    const spelt = ['--method', 'POST', '--path', '/v1//x/../payments/%37']
    expect((await run(['explain', '--config', file, ...spelt])).out).toContain(
      '/v1/payments/7 from',
    )
    const refused = await run(['explain', '--config', file, '--path', '/a%2fb'])
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining('--path /a%2fb') })
  })

  test('reads the tier of a token as the gateway does', async () => {
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const token = `${part({ alg: 'RS256' })}.${part({ sub: 'ada', plan: 'gold' })}.x`
    const file = policyFile(`${good}
tiers: { names: [free, gold], default: free }
auth: { jwt: { jwksUrl: https://login.example.com/keys, tierClaim: plan } }
`)
    const header = `authorization: Bearer ${token}`
    const { out } = await run(['explain', '--config', file, '--header', header])
    expect(out).toContain('tier: gold')
  })

  test('says that the secret of the API keys is missing', async () => {
    const keys = policyFile('[]')
    const auth = `auth: { apiKeys: { secret: { env: KEYS }, file: ${keys} } }\n`
    const { code, err } = await run(['explain', '--config', policyFile(good + auth), ...request])
    expect({ code, err }).toEqual({
      code: 1,
      err: 'tidegate explain: auth.apiKeys.secret: the environment variable KEYS is not set\n',
    })
  })

  test.for([
    [['--tier', 'gold'], 'allowed is none, the policy has no tiers'],
    [['--ip', 'localhost'], 'allowed is an IP address'],
    [['--header', 'x-api-key'], "allowed is 'name: value'"],
  ] as const)('%j is refused', async ([args, message]) => {
    const { code, err } = await run(['explain', '--config', policyFile(good), ...args])
    expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining(message) })
  })
})
