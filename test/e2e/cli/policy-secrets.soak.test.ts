/** A rejected policy in a running gateway: log, `/status` and terminal do not show its secrets. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { runCli } from '../../../packages/server/src/cli/cli.ts'
import { until } from '../../support/servers/until.ts'
import { startGatewayProcess } from './gateway-process.ts'

const CANARY = 'canary7291'

const limits = [{ name: 'client', key: 'ip', limit: 2, per: '1h' }]

const route = (value: string) => ({
  routes: [{ upstream: 'api', requestHeaders: { set: { authorization: value } } }],
})

const changes: readonly (object | string)[] = [
  { store: { mode: 'standalone', addresses: [`redis://:${CANARY}@127.0.0.1:6379`] } },
  { upstreams: { api: { targets: [`http://user:${CANARY}@127.0.0.1:1`] } } },
  { upstreams: { api: { targets: [`http://:${CANARY}@127.0.0.1:1`] } } },
  { auth: { jwt: { jwksUrl: `https://u:${CANARY}@login.internal/keys` } } },
  {
    tiers: {
      names: ['free'],
      default: 'free',
      lookup: { by: 'user', url: `http://:${CANARY}@tiers.internal/{key}` },
    },
  },
  route(`Bearer ${CANARY}\n`),
  { store: { mode: 'standalone', password: CANARY } },
  `limits: []\nstore: { password:${CANARY} }\n`,
  `limits: []\nstore: { password: "${CANARY}\n`,
  { auth: { apiKeys: { secret: { env: 'KEYS' }, file: 'keys.yaml' } } },
  { auth: { apiKeys: { secret: { env: CANARY }, file: 'empty.yaml' } } },
  { auth: { jwt: { jwksFile: 'keys.yaml' } } },
]

test('no secret of a refused policy is logged or shown', async () => {
  const policy = { limits, upstreams: { api: { targets: ['http://127.0.0.1:1'] } } }
  const gateway = await startGatewayProcess({ policy })
  onTestFinished(() => gateway.stop().then(() => undefined))
  gateway.writeBeside('keys.yaml', `- key: ${CANARY}\n  x: [${CANARY}\n`)
  gateway.writeBeside('empty.yaml', '[]\n')
  const statuses: string[] = []
  for (const [at, change] of changes.entries()) {
    gateway.write(typeof change === 'string' ? change : { ...policy, ...change })
    await until(`change ${at} is refused`, () => {
      return gateway.output().split('"policy.refused"').length === at + 2
    })
    const status = await gateway.status()
    expect(status.policy.refused?.length).toBeGreaterThan(0)
    statuses.push(JSON.stringify(status))
  }
  expect(statuses.join('\n')).not.toContain(CANARY)
  expect(gateway.output()).not.toContain(CANARY)
})

test('no secret is printed by a command that refuses a policy', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-secrets-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'keys.yaml'), `- key: ${CANARY}\n  x: [${CANARY}\n`)
  let printed = ''
  const terminal = {
    environment: {},
    stdout: (text: string) => {
      printed += text
    },
    stderr: (text: string) => {
      printed += text
    },
  }
  for (const [at, change] of changes.entries()) {
    const file = join(folder, `${at}.yaml`)
    const text = typeof change === 'string' ? change : JSON.stringify({ limits, ...change })
    writeFileSync(file, text)
    for (const command of ['check', 'explain', 'gateway']) {
      // This policy is valid until the secret is read.
      if (command === 'check' && text.includes('empty.yaml')) continue
      const before = printed
      const args = ['--header', `x-api-key: ${CANARY}`].slice(command === 'explain' ? 0 : 2)
      await runCli([command, '--config', file, ...args], terminal)
      expect({ at, command, length: printed.length }).not.toMatchObject({ length: before.length })
    }
  }
  const settings = [
    { BACKEND_URL: `http://u:${CANARY}@host/path` },
    { REDIS_ADDR: `redis://:${CANARY}@host:1` },
  ]
  for (const environment of settings) await runCli(['gateway'], { ...terminal, environment })
  const good = join(folder, 'good.yaml')
  writeFileSync(good, JSON.stringify({ limits }))
  await runCli(['explain', '--config', good, '--header', `authorization ${CANARY}`], terminal)
  expect(printed).toContain("allowed is 'name: value'")
  expect(printed).not.toContain(CANARY)
})
