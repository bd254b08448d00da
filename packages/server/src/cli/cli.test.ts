import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import type { Environment } from '../environment.ts'
import { runCli } from './cli.ts'

const folder = mkdtempSync(join(tmpdir(), 'tidegate-cli-'))

afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function run(args: readonly string[], environment: Environment = {}) {
  let out = ''
  let err = ''
  const code = await runCli(args, {
    environment,
    print: (text) => {
      out += text
    },
    complain: (text) => {
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
    for (const name of ['gateway', 'check', 'explain', 'version', 'help']) {
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

  test('says that a file is not there', async () => {
    const { code, err } = await run(['check', '--config', join(folder, 'none.yaml')])
    expect({ code, err }).toMatchObject({ code: 1, err: expect.stringContaining('no such file') })
  })
})

describe('tidegate explain', () => {
  const request = ['--method', 'POST', '--path', '/v1/payments/7', '--header', 'x-api-key: k']

  test('tells which limits apply and why the others do not', async () => {
    const { out, code } = await run(['explain', '--config', policyFile(good), ...request])
    expect(code).toBe(0)
    expect(out).toContain('POST /v1/payments/7 from 127.0.0.1')
    expect(out).toMatch(
      /per-key: 100 per 1000 ms, burst 100 \(tokenBucket\); costs 1\n {4}key apiKey/,
    )
    expect(out).toMatch(/These do not:\n {2}reads: .*method.*\n {2}later: its mode is off/)
  })

  test('tells a fallback of the key', async () => {
    const file = policyFile(good)
    const { out } = await run(['explain', '--config', file, ...request.slice(0, 4)])
    expect(out).toMatch(/key ip: \S*127\.0\.0\.1, because the first kind of key is missing/)
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

  test.for([
    [['--ip', 'localhost'], 'allowed is an IP address'],
    [['--header', 'x-api-key'], "allowed is 'name: value'"],
  ] as const)('%j is refused', async ([args, message]) => {
    const { code, err } = await run(['explain', '--config', policyFile(good), ...args])
    expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining(message) })
  })
})
