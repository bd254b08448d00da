/** A real gateway, its decision API and its admin API: a change is live with the next request. */

import { expect, onTestFinished, test } from 'vitest'
import { runCli } from '../../../packages/server/src/cli/cli.ts'
import { freePort } from '../../support/servers/ports.ts'
import { until } from '../../support/servers/until.ts'
import { startBackend, startGatewayProcess } from './gateway-process.ts'

const TOKEN = 'the-bootstrap-token-of-this-test-0123456789'

async function setup() {
  const backend = await startBackend()
  onTestFinished(() => backend.stop())
  const [adminPort, apiPort] = [await freePort(), await freePort()]
  const policyOf = (limit: number) => ({
    upstreams: { api: { targets: [backend.url] } },
    admin: { listen: { port: adminPort }, token: { env: 'ADMIN_TOKEN' } },
    decisionApi: { listen: { port: apiPort }, token: { env: 'ADMIN_TOKEN' } },
    limits: [{ name: 'key', key: { header: 'x-client' }, otherwise: 'skip', limit, per: '1h' }],
  })
  const gateway = await startGatewayProcess({
    policy: policyOf(2),
    environment: { ADMIN_TOKEN: TOKEN },
  })
  onTestFinished(async () => void (await gateway.stop()))
  const ask = async (client: string) => {
    const response = await fetch(gateway.url, { headers: { 'x-client': client } })
    await response.arrayBuffer()
    return response.status
  }
  const check = async (client: string) => {
    const response = await fetch(`http://127.0.0.1:${apiPort}/v1/check`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}` },
      body: JSON.stringify({ limits: [{ name: 'key', key: [client] }], peek: true }),
    })
    return ((await response.json()) as { outcome: string }).outcome
  }
  const tidegate = async (...args: readonly string[]) => {
    let output = ''
    const write = (text: string) => {
      output += text
    }
    const environment = {
      TIDEGATE_ADMIN: `http://127.0.0.1:${adminPort}`,
      TIDEGATE_TOKEN: TOKEN,
    }
    const code = await runCli(args, { environment, stdout: write, stderr: write })
    if (code !== 0) throw new Error(output)
    return output
  }
  const status = async () => {
    const response = await fetch(`http://127.0.0.1:${adminPort}/status`)
    return (await response.json()) as { policy: { version: string }; control: object }
  }
  return { gateway, ask, check, tidegate, policyOf, status }
}

test('blocks, overrides and the switch change the next decision', async () => {
  const { gateway, ask, check, tidegate } = await setup()
  expect([await ask('a'), await ask('a'), await ask('a')]).toEqual([200, 200, 429])
  expect(await check('a')).toBe('denied')

  await tidegate(
    'override',
    'set',
    'a',
    '--name',
    'key',
    '--limit',
    '9',
    '--for',
    '1h',
    '--why',
    'x',
  )
  expect([await ask('a'), await check('a')]).toEqual([200, 'admitted'])

  const why = ['--for', '1h', '--why', 'an attack']
  await tidegate('block', 'key', 'a', '--name', 'key', ...why)
  expect([await ask('a'), await check('a'), await ask('b')]).toEqual([403, 'blocked', 200])

  await tidegate('switch', 'off', '--why', 'an emergency')
  expect([await ask('a'), await ask('b'), await ask('b'), await ask('b')]).toEqual([
    403, 200, 200, 200,
  ])
  await tidegate('switch', 'on', '--why', 'it is over')
  await tidegate('unblock', 'key', 'a', '--name', 'key', '--why', 'it is over')
  expect(await ask('a')).toBe(200)

  await tidegate('block', 'cidr', '127.0.0.0/8', '--answer', '429', ...why)
  const blocked = await fetch(gateway.url)
  expect(blocked.status).toBe(429)
  expect(Number(blocked.headers.get('retry-after'))).toBeGreaterThan(3_000)
  expect(await blocked.text()).not.toContain('attack')

  expect(await tidegate('audit', 'verify')).toContain('the audit is whole: 6 records')
  const audited = () => gateway.output().match(/"event":"audit"/g)
  await until('all records are logged', () => audited()?.length === 6)
  const output = gateway.output()
  expect(output).not.toContain(TOKEN)
})

test('entries stay when the policy file changes', async () => {
  const { gateway, ask, tidegate, policyOf, status } = await setup()
  await tidegate(
    ...['override', 'set', 'a', '--name', 'key', '--limit', '5'],
    ...['--for', '1h', '--why', 'x'],
  )
  const { policy, control } = await status()
  expect(control).toMatchObject({ kind: 'this node only', overrides: 1, blocks: 0 })
  gateway.write(policyOf(3))
  await until('the policy is live', async () => (await status()).policy.version !== policy.version)
  const statuses: number[] = []
  for (let at = 0; at < 6; at++) statuses.push(await ask('a'))
  expect(statuses).toEqual([200, 200, 200, 200, 200, 429])
  const others = [await ask('b'), await ask('b'), await ask('b'), await ask('b')]
  expect(others).toEqual([200, 200, 200, 429])
})
