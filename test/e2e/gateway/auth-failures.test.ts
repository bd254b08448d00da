/** Wrong credentials are limited by the address that sends them. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { request } from 'undici'
import { describe, expect, onTestFinished, test } from 'vitest'
import { hmacOf } from '../../../packages/server/src/gateway/auth/api-keys.ts'
import { startTestGateway } from './test-gateway.ts'
import { startUpstream } from './test-upstream.ts'

const SECRET = 'a secret of the gateway'

const { publicKey, privateKey } = await generateKeyPair('RS256')
const other = await generateKeyPair('RS256')
const jwks = { keys: [{ ...(await exportJWK(publicKey)), kid: 'one', alg: 'RS256' }] }

function sign(key: typeof privateKey, sub: string): Promise<string> {
  const token = new SignJWT({ sub }).setProtectedHeader({ alg: 'RS256', kid: 'one' })
  return token.setExpirationTime('1h').sign(key)
}

async function start(failures: object | 'off' = { limit: 3, per: '1h' }, others: object = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-failures-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'keys.jsonl'), `{"hmac":"${hmacOf('good', SECRET)}","id":"key_1"}`)
  writeFileSync(join(folder, 'jwks.json'), JSON.stringify(jwks))
  const upstream = await startUpstream()
  const policy = {
    upstreams: { api: { targets: [upstream.url] } },
    auth: {
      apiKeys: { secret: { env: 'KEY_SECRET' }, file: 'keys.jsonl' },
      jwt: { jwksFile: 'jwks.json' },
      failures,
    },
    ...others,
  }
  const gateway = await startTestGateway(policy, { folder, environment: { KEY_SECRET: SECRET } })
  const status = async (headers: Record<string, string> = {}) => {
    const response = await request(gateway.url, { headers })
    await response.body.dump()
    return response.statusCode
  }
  const statuses = async (count: number, headers: Record<string, string>) => {
    const found: number[] = []
    for (let at = 0; at < count; at += 1) found.push(await status(headers))
    return found
  }
  return { gateway, upstream, policy, status, statuses }
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

describe('wrong credentials', () => {
  test('get 429 beyond the limit, with the time to wait, before they are looked at', async () => {
    const { gateway, upstream, statuses } = await start()
    expect(await statuses(5, { 'x-api-key': 'bad' })).toEqual([401, 401, 401, 429, 429])
    const response = await request(gateway.url, { headers: { 'x-api-key': 'good' } })
    expect(response.statusCode).toBe(429)
    expect(Number(response.headers['retry-after'])).toBeGreaterThan(0)
    expect(response.headers['content-type']).toBe('application/problem+json')
    await response.body.dump()
    expect(upstream.seen).toHaveLength(0)
  })

  test('of tokens and API keys are counted together', async () => {
    const { statuses } = await start()
    expect(await statuses(2, { 'x-api-key': 'bad' })).toEqual([401, 401])
    expect(await statuses(2, bearer('a.b.c'))).toEqual([401, 429])
    expect(await statuses(1, { 'x-api-key': 'good' })).toEqual([429])
  })

  test('count if they are wrong, not if they are right or missing', async () => {
    const { status, statuses } = await start()
    const token = await sign(privateKey, 'ann')
    expect(await statuses(5, { 'x-api-key': 'good', ...bearer(token) })).toEqual(Array(5).fill(200))
    expect(await statuses(5, {})).toEqual(Array(5).fill(200))
    expect(await statuses(4, { 'x-api-key': 'bad' })).toEqual([401, 401, 401, 429])
    expect(await status()).toBe(200)
  })

  test('in a burst of tokens do not pass the limit, and valid ones are not refused', async () => {
    const { status } = await start({ limit: 3, per: '1h' })
    const good = await Promise.all(Array.from({ length: 20 }, (_, at) => sign(privateKey, `${at}`)))
    const passed = await Promise.all(good.map((token) => status(bearer(token))))
    expect(passed).toEqual(Array(20).fill(200))
    const bad = await Promise.all(
      Array.from({ length: 20 }, (_, at) => sign(other.privateKey, `${at}`)),
    )
    const refused = await Promise.all(bad.map((token) => status(bearer(token))))
    expect(refused.filter((code) => code === 401)).toHaveLength(3)
    expect(refused.filter((code) => code === 429)).toHaveLength(17)
  })

  test('are counted by the address behind trusted proxies, of IPv6 by its network', async () => {
    const { status } = await start({ limit: 1, per: '1h' }, { gateway: { trustProxy: 1 } })
    const found: number[] = []
    for (const ip of ['1.1.1.1', '2.2.2.2', '1.1.1.1', '2001:db8::1', '2001:db8::2', '2001:db9::1'])
      found.push(await status({ 'x-forwarded-for': ip, 'x-api-key': 'bad' }))
    expect(found).toEqual([401, 401, 429, 401, 429, 401])
  })

  test('are logged like any refusal', async () => {
    const { gateway, statuses } = await start({ limit: 1, per: '1h' })
    await statuses(2, { 'x-api-key': 'bad-canary' })
    expect(gateway.logged()).toMatchObject([
      { event: 'gateway.refused', status: 401, reason: 'The API key is not known.' },
      { event: 'ratelimit.decision', outcome: 'denied', reason: 'auth.failures', limit: 1 },
    ])
    expect(gateway.loggedText()).not.toContain('canary')
  })

  test('of addresses on the allow list are not counted, and none if it is off', async () => {
    const exempt = await start({ limit: 1, per: '1h' }, { ipLists: { allow: ['127.0.0.1'] } })
    expect(await exempt.statuses(3, { 'x-api-key': 'bad' })).toEqual([401, 401, 401])
    expect(await exempt.statuses(2, bearer('a.b.c'))).toEqual([401, 401])
    const off = await start('off')
    expect(await off.statuses(5, { 'x-api-key': 'bad' })).toEqual(Array(5).fill(401))
  })

  test('still count after a reload of the policy', async () => {
    const { gateway, policy, statuses } = await start()
    await statuses(3, { 'x-api-key': 'bad' })
    gateway.change({ ...policy, limits: [{ name: 'a', key: 'ip', limit: 100, per: '1s' }] })
    expect(await statuses(1, { 'x-api-key': 'bad' })).toEqual([429])
  })
})
