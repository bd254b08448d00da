import { writeFileSync } from 'node:fs'
import { describe, expect, onTestFinished, test } from 'vitest'
import { readText } from '../../../../../test/house/source-file.ts'
import { makeRegionCertificates } from '../../../../../test/support/regions/region-certificates.ts'
import { freePort } from '../../../../../test/support/servers/ports.ts'
import { startRedis } from '../../../../../test/support/servers/redis.ts'
import { makeFolder, removeFolder } from '../../../../../test/support/servers/server-process.ts'
import { until } from '../../../../../test/support/servers/until.ts'
import { BOOTSTRAP, startAdminService } from '../../admin/admin-contract.ts'
import { routeTable } from '../../admin/route-table.ts'
import { runCli } from '../cli.ts'

async function run(args: readonly string[], environment: Record<string, string> = {}) {
  let stdout = ''
  let stderr = ''
  const code = await runCli(args, {
    environment,
    stdout: (text) => {
      stdout += text
    },
    stderr: (text) => {
      stderr += text
    },
  })
  return { code, stdout, stderr }
}

async function setup(options: Parameters<typeof startAdminService>[0] = {}) {
  const service = await startAdminService(options)
  const environment = { TIDEGATE_ADMIN: service.url, TIDEGATE_TOKEN: BOOTSTRAP }
  const tidegate = (line: string) => run(line.split(' '), environment)
  return { ...service, environment, tidegate }
}

describe('the commands', () => {
  test('set, list and remove an override', async () => {
    const { tidegate } = await setup()
    const set = await tidegate('override set acme --name api --limit 5 --for 7d --why promotion')
    expect(set).toMatchObject({ code: 0, stderr: '' })
    expect(set.stdout).toMatch(/^override of api set until .*Z, on this node only\n$/)
    const list = await tidegate('override list')
    expect(list.stdout).toMatch(/^api acme: \{"limit":5\}, until .*, by bootstrap: promotion\n1 ov/)
    const json = JSON.parse((await tidegate('override list --json')).stdout)
    expect(json).toMatchObject({ overrides: [{ limit: 'api', key: ['acme'] }], scope: 'node' })
    const removed = await tidegate('override remove acme --name api --why over')
    expect(removed.stdout).toBe('override of api removed, on this node only\n')
  })

  test('block and unblock a client', async () => {
    const { tidegate } = await setup()
    const block = await tidegate('block user mallory --for 1h --answer 429 --why attack')
    expect(block.stdout).toMatch(/^user blocked until .*, on this node only\n$/)
    const byKey = await tidegate('block key acme --name api --forever --why attack')
    expect(byKey.stdout).toBe('key blocked without an end, on this node only\n')
    expect((await tidegate('block list')).stdout).toContain('user mallory: 429, until')
    const unblock = await tidegate('unblock user mallory --why sorry')
    expect(unblock.stdout).toBe('user no longer blocked, on this node only\n')
  })

  test('top prints plain lines, and draws a terminal again', async () => {
    const { tidegate, environment } = await setup()
    const plain = await tidegate('top --count 1')
    expect(plain.stdout).toMatch(/^\d{4}-[^ ]+Z allowed=0\/s denied=0\/s .* p50=- p99=-\n$/)
    let drawn = ''
    const stdout = (text: string) => {
      drawn += text
    }
    const terminal = { environment, isInteractive: true, stdout, stderr: stdout }
    expect(await runCli(['top', '--count', '1'], terminal)).toBe(0)
    expect(drawn.startsWith('\u001b[H\u001b[2Jtidegate top')).toBe(true)
    expect(drawn).toContain('no client was refused in the last minutes')
    const wrong = await tidegate('top --count 0')
    expect([wrong.code, wrong.stderr]).toEqual([
      2,
      expect.stringContaining('--count 0: allowed is'),
    ])
  })

  test('turn the switch and show it', async () => {
    const { tidegate } = await setup()
    expect((await tidegate('switch show')).stdout).toBe('limits on, blocks on, on this node only\n')
    const off = await tidegate('switch off --until 2999-01-01T00:00:00Z --why emergency')
    expect(off.stdout).toMatch(/^limits off, blocks on, until 2999-01-01T00:00:00\.000Z, on/)
    expect((await tidegate('switch show')).stdout).toContain('limits off')
  })

  test('show the regions, and fail if one does not answer', async () => {
    expect((await (await setup()).tidegate('regions status')).stdout).toContain('has no regions')
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const folder = makeFolder()
    onTestFinished(() => removeFolder(folder))
    const link = { listen: { host: '127.0.0.1', port: await freePort() } }
    const certificate = makeRegionCertificates(folder, ['eu']).get('eu')
    // Nothing listens there.
    const list = { eu: { endpoint: 'localhost:1' }, us: { endpoint: 'localhost:1' } }
    const quota = { name: 'api', key: 'everyone', limit: 10, per: '1h' }
    const { tidegate } = await setup({
      policy: Object.entries({
        region: 'eu',
        regions: { list, link: { ...link, ...certificate } },
        store: { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`] },
        upstreams: { api: { targets: ['http://127.0.0.1:9'] } },
        limits: [{ ...quota, regions: { mode: 'shared' } }],
      })
        .map(([name, section]) => `${name}: ${JSON.stringify(section)}`)
        .join('\n'),
    })
    const shown = await until('the node is the exchanger', async () => {
      const status = await tidegate('regions status')
      return status.stdout.includes('this node exchanges the counts of 0 keys') && status
    })
    expect(shown).toMatchObject({ code: 1, stderr: '' })
    expect(shown.stdout).toContain('eu: 0 units of 0 keys are leased from other regions\n')
    expect(shown.stdout).toContain('us: cut off: ECONNREFUSED\n')
    const forgotten = await tidegate('regions forget us --why gone')
    expect(forgotten).toMatchObject({ code: 0, stderr: '' })
    expect(forgotten.stdout).toContain('us: forgotten; its keys get another home')
    const { stdout } = await tidegate('regions status')
    expect(stdout).toContain('us: cut off: ECONNREFUSED; it is forgotten\n')
    expect((await tidegate('regions remember us --why back')).stderr).toContain('Remove it from')
  })

  test('show, refund and reset a counter', async () => {
    const { tidegate } = await setup()
    expect((await tidegate('counter show acme')).stdout).toMatch(/^api: 0 used, 2 left/)
    expect((await tidegate('counter refund acme --name api --units 1 --why x')).code).toBe(0)
    expect((await tidegate('counter reset acme --name api --why x')).code).toBe(0)
  })

  test('create, use, list and revoke a token', async () => {
    const { tidegate, folder, url } = await setup()
    const created = await tidegate('token create --name ci --role read --for 1h --why test')
    expect(created.stdout).toMatch(/^tg_[0-9a-f]{12}_[\w-]{43}\n$/)
    const file = `${folder}/token`
    writeFileSync(file, created.stdout)
    const show = await run(['switch', 'show', '--admin', url, '--token-file', file])
    expect(show.code).toBe(0)
    const id = created.stdout.slice(3, 15)
    expect((await tidegate('token list')).stdout).toContain(`${id} read`)
    expect((await tidegate(`token revoke ${id} --why lost`)).code).toBe(0)
    const refused = await run(['switch', 'show', '--admin', url, '--token-file', file])
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('401: ') })
  })

  test('list, export and verify the audit', async () => {
    const { tidegate } = await setup()
    await tidegate('switch shadow --why calm')
    expect((await tidegate('audit')).stdout).toMatch(
      /^1 .* bootstrap \(admin\) switch\.set switch done: calm\n$/,
    )
    const exported = (await tidegate('audit export --action switch')).stdout
    expect(JSON.parse(exported)).toMatchObject({ id: 1, action: 'switch.set' })
    expect((await tidegate('audit verify')).stdout).toBe(
      'the audit is whole: 1 records, from 1 to 1\n',
    )
    expect((await tidegate('audit --actor alice')).stdout).toBe('no records\n')
  })

  test('the audit shows the status with which a change was refused', async () => {
    const { tidegate } = await setup()
    expect(
      (await tidegate('override set acme extra --name api --limit 5 --for 1h --why x')).code,
    ).toBe(1)
    await until('the record', async () => {
      const { stdout } = await tidegate('audit')
      return / override\.set override refused with status 422\n$/.test(stdout)
    })
  })
})

describe('errors', () => {
  test.for<[string, number, RegExp]>([
    ['override set acme --limit 5 --for 1h --why x', 2, /--name LIMIT is missing/],
    ['override set acme --name api --for 1h --why x', 2, /--limit, --per, --burst or --ttl/],
    ['override set acme --name api --limit 5 --for 1h', 2, /--why TEXT is missing/],
    ['override set acme --name api --limit x --for 1h --why x', 2, /allowed is a whole number/],
    ['override set acme --name none --limit 5 --for 1h --why x', 1, /422: limit: no limit/],
    ['override set acme --name api --limit 5 --why x', 1, /exactly one of them is needed/],
    ['override frob', 2, /allowed is: set, list or remove/],
    ['block user', 2, /KIND VALUE is missing/],
    ['block planet mars --for 1h --why x', 1, /422: kind/],
    ['block user u --for 1h --answer 200 --why x', 2, /allowed is 403 or 429/],
    ['unblock user u --why x', 1, /404: There is no such entry/],
    ['switch', 2, /allowed is: on, shadow, off or show/],
    ['switch sideways --why x', 1, /422: limits/],
    ['token create --name x', 2, /--name NAME and --role ROLE are needed/],
    ['counter refund a --name api --units 0 --why x', 2, /--units N/],
    ['audit frob', 2, /allowed is: list, export or verify/],
  ])('%s: exit code %i', async ([line, code, message]) => {
    const { tidegate } = await setup()
    expect(await tidegate(line)).toMatchObject({ code, stderr: expect.stringMatching(message) })
  })

  test('name the place that cannot be reached, and never the token', async () => {
    const environment = { TIDEGATE_TOKEN: 'tg_secret_token' }
    const gone = await run(['switch', 'show', '--admin', 'http://127.0.0.1:9'], environment)
    expect(gone).toMatchObject({ code: 1, stderr: expect.stringContaining('cannot be reached') })
    expect(gone.stderr).not.toContain('tg_secret')
    const none = await run(['switch', 'show'])
    expect(none.stderr).toContain('set TIDEGATE_TOKEN, or use --token-file FILE')
    const wrong = await run(['switch', 'show', '--admin', 'ftp://x'], environment)
    expect(wrong).toMatchObject({ code: 2 })
  })
})

describe('docs/admin-api.md', () => {
  const page = readText('docs/admin-api.md')

  test('has commands that work in their order', async () => {
    const { tidegate } = await setup()
    const lines = page.split('\n').filter((line) => /^tidegate \w+ /.test(line))
    expect(lines.length).toBeGreaterThan(15)
    for (const line of lines) {
      const { code, stderr } = await tidegate(line.replace(/^tidegate /, ''))
      expect({ line, code, stderr: stderr.replace(/^token .*\n$/, '') }).toEqual({
        line,
        code: 0,
        stderr: '',
      })
    }
  })

  test('lists every route with its role', () => {
    const rows = routeTable.map(
      ({ method, path, role, summary }) => `| \`${method} ${path}\` | ${role} | ${summary} |`,
    )
    expect(page.split('\n').filter((line) => /^\| `[A-Z]+ \/v1/.test(line))).toEqual(rows)
  })
})

test('keys with control characters do not reach the terminal raw', async () => {
  const { call, tidegate } = await setup()
  const key = ['a\u001b[2J\u202e\u009b']
  const body = { limit: 'api', key, set: { limit: 5 }, for: '1h', why: 'a test' }
  expect((await call('PUT', '/v1/overrides', { body })).status).toBe(200)
  for (const line of ['override list', 'override list --json']) {
    const { stdout } = await tidegate(line)
    expect(stdout).toContain('a\\u001b[2J\\u202e\\u009b')
    expect(stdout).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}]/u)
  }
})
