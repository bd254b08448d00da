/** API keys of a gateway process: a key file that changes, and limited guesses. */

import { createHmac } from 'node:crypto'
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../support/servers/until.ts'
import { startBackend, startGatewayProcess } from './gateway-process.ts'

const SECRET = 'a secret of the gateway'

const line = (key: string) =>
  `${JSON.stringify({ hmac: createHmac('sha256', SECRET).update(key).digest('hex'), id: key })}\n`

async function start(failures: object) {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-keys-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'keys.jsonl')
  writeFileSync(file, line('old'))
  const backend = await startBackend()
  onTestFinished(() => backend.stop())
  const policy = {
    upstreams: { api: { targets: [backend.url] } },
    limits: [],
    auth: { apiKeys: { secret: { env: 'KEY_SECRET' }, file }, failures },
  }
  const gateway = await startGatewayProcess({ policy, environment: { KEY_SECRET: SECRET } })
  onTestFinished(async () => void (await gateway.stop()))
  const status = async (key: string) => {
    const response = await fetch(gateway.url, { headers: { 'x-api-key': key } })
    await response.arrayBuffer()
    return response.status
  }
  const applied = async (change: () => void) => {
    const before = (await gateway.status()).policy.version
    change()
    await until('it is live', async () => (await gateway.status()).policy.version !== before)
  }
  return { file, policy, gateway, status, applied }
}

test('a change of the file of API keys is followed, and a wrong one is refused', async () => {
  const { file, gateway, status, applied } = await start({ limit: 1_000, per: '1h' })
  expect([await status('old'), await status('new')]).toEqual([200, 401])
  await applied(() => {
    writeFileSync(`${file}.new`, line('new'))
    renameSync(`${file}.new`, file)
  })
  expect([await status('old'), await status('new')]).toEqual([401, 200])
  writeFileSync(file, `${line('new')}{"id": "x"}\n`)
  const refused = await until('it is refused', async () => (await gateway.status()).policy.refused)
  expect(refused).toEqual([expect.stringContaining('keys.jsonl:2:1 hmac: is missing')])
  expect([await status('old'), await status('new')]).toEqual([401, 200])
})

test('wrong keys are limited as the policy says now, and not if it is turned off', async () => {
  const { policy, gateway, status, applied } = await start({ limit: 1, per: '1h' })
  expect([await status('a'), await status('b'), await status('old')]).toEqual([401, 429, 429])
  const auth = { ...policy.auth, failures: { limit: 2, per: '1h' } }
  await applied(() => gateway.write({ ...policy, auth }))
  expect([await status('old'), await status('b'), await status('c')]).toEqual([200, 401, 429])
  await applied(() => gateway.write({ ...policy, enabled: false }))
  expect([await status('b'), await status('c'), await status('old')]).toEqual([401, 401, 200])
})
