/** Authentication: API keys, tokens, and lists of addresses. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { request } from 'undici'
import { describe, expect, onTestFinished, test } from 'vitest'
import { hmacOf } from '../../../packages/server/src/gateway/auth/api-keys.ts'
import { startTestGateway } from './test-gateway.ts'
import { listening, startUpstream } from './test-upstream.ts'

const SECRET = 'a secret of the gateway'

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-auth-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}

async function ask(url: string, headers: Record<string, string> = {}) {
  const response = await request(url, { headers })
  return {
    status: response.statusCode,
    headers: response.headers,
    text: await response.body.text(),
  }
}

describe('API keys', () => {
  const hmac = hmacOf('good', SECRET)
  const entry = `- { hmac: ${hmac}, id: key_1, organisation: org_1, tier: premium }\n`

  async function start(options: object = {}, others: object = {}) {
    const folder = makeFolder()
    writeFileSync(join(folder, 'keys.yaml'), entry)
    const upstream = await startUpstream()
    const apiKeys = { secret: { env: 'KEY_SECRET' }, file: 'keys.yaml', ...options }
    const policy = { upstreams: { api: { targets: [upstream.url] } }, auth: { apiKeys }, ...others }
    const environment = { KEY_SECRET: SECRET }
    return { upstream, gateway: await startTestGateway(policy, { folder, environment }) }
  }

  test('that are known pass, and the upstream learns whose they are', async () => {
    const { upstream, gateway } = await start()
    const { status } = await ask(gateway.url, { 'x-api-key': 'good', 'x-tidegate-key': 'forged' })
    expect(status).toBe(200)
    expect(upstream.seen[0]?.headers).toMatchObject({
      'x-tidegate-key': 'key_1',
      'x-tidegate-organisation': 'org_1',
    })
  })

  test('that are not known get 401 with a challenge, needed or not', async () => {
    const { upstream, gateway } = await start()
    const { status, headers } = await ask(gateway.url, { 'x-api-key': 'bad' })
    expect(status).toBe(401)
    expect(headers).toMatchObject({
      'www-authenticate': 'ApiKey',
      'content-type': 'application/problem+json',
    })
    expect(upstream.seen).toHaveLength(0)
  })

  test('may be missing, unless they are needed', async () => {
    const open = await start()
    expect((await ask(open.gateway.url)).status).toBe(200)
    const closed = await start({ required: true, header: 'x-key' })
    expect((await ask(closed.gateway.url)).status).toBe(401)
    expect((await ask(closed.gateway.url, { 'x-key': 'good' })).status).toBe(200)
  })

  test('have a limit each', async () => {
    const limit = { name: 'per-key', key: 'apiKey', otherwise: 'ip', limit: 1, per: '1h' }
    const upstream = await startUpstream()
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url] } },
      limits: [limit],
    })
    const statuses: number[] = []
    for (const key of ['a', 'b', 'a', 'b', 'c']) {
      statuses.push((await ask(gateway.url, { 'x-api-key': key })).status)
    }
    expect(statuses).toEqual([200, 200, 429, 429, 200])
    expect(upstream.seen[0]?.headers).not.toHaveProperty('x-tidegate-key')
  })

  test('are requested with 401 if a limit needs one', async () => {
    const limits = [{ name: 'per-key', key: 'apiKey', otherwise: 'deny', limit: 1, per: '1h' }]
    const upstream = await startUpstream()
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url] } },
      limits,
    })
    const { status, headers } = await ask(gateway.url)
    expect(status).toBe(401)
    expect(headers).toHaveProperty('www-authenticate')
  })
})

describe('tokens', async () => {
  const { publicKey, privateKey } = await generateKeyPair('ES256')
  const other = await generateKeyPair('ES256')
  const jwks = { keys: [{ ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256' }] }

  interface Claims {
    readonly [claim: string]: unknown
    readonly expires?: string
    readonly key?: typeof privateKey
  }

  function sign({ expires = '1h', key = privateKey, ...claims }: Claims): Promise<string> {
    return new SignJWT({ iss: 'us', aud: 'api', ...claims })
      .setProtectedHeader({ alg: 'ES256', kid: 'one' })
      .setIssuedAt()
      .setExpirationTime(expires)
      .sign(key)
  }

  async function start(options: object = {}, others: object = {}) {
    const folder = makeFolder()
    writeFileSync(join(folder, 'jwks.json'), JSON.stringify(jwks))
    const upstream = await startUpstream()
    const source = { jwksFile: 'jwks.json', issuer: 'us', audience: 'api', algorithms: ['ES256'] }
    const auth = { jwt: { ...source, ...options } }
    const policy = { upstreams: { api: { targets: [upstream.url] } }, auth, ...others }
    return { upstream, gateway: await startTestGateway(policy, { folder }) }
  }

  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

  test('that are valid pass, and the upstream learns whose they are', async () => {
    const { upstream, gateway } = await start()
    const token = await sign({ sub: 'Zoë', org: 'org_1' })
    for (let count = 0; count < 3; count += 1) {
      expect((await ask(gateway.url, bearer(token))).status).toBe(200)
    }
    expect(upstream.seen[2]?.headers).toMatchObject({
      'x-tidegate-user': 'Zo%C3%AB',
      'x-tidegate-organisation': 'org_1',
    })
  })

  test.each([
    ['are signed by another key', { key: other.privateKey }],
    ['have expired', { expires: '-1m' }],
    ['are from another issuer', { iss: 'them' }],
    ['are for another audience', { aud: 'web' }],
  ])('that %s get 401', async (_name, claims) => {
    const { upstream, gateway } = await start()
    const { status, headers } = await ask(gateway.url, bearer(await sign(claims)))
    expect(status).toBe(401)
    expect(headers['www-authenticate']).toBe('Bearer error="invalid_token"')
    expect(upstream.seen).toHaveLength(0)
  })

  test.each(['x', 'a.b.c', 'eyJhbGciOiJub25lIn0.e30.'])('that are %j get 401', async (token) => {
    const { gateway } = await start()
    expect((await ask(gateway.url, bearer(token))).status).toBe(401)
  })

  test('may be missing, unless they are needed', async () => {
    const open = await start()
    expect((await ask(open.gateway.url)).status).toBe(200)
    const closed = await start({ required: true })
    expect((await ask(closed.gateway.url)).status).toBe(401)
    expect((await ask(closed.gateway.url, { authorization: 'Basic eDp5' })).status).toBe(401)
  })

  test('have a limit each, by their claims', async () => {
    const limits = [{ name: 'per-user', key: 'user', otherwise: 'deny', limit: 1, per: '1h' }]
    const { gateway } = await start({ required: true }, { limits })
    const statuses: number[] = []
    for (const sub of ['ann', 'bob', 'ann']) {
      statuses.push((await ask(gateway.url, bearer(await sign({ sub })))).status)
    }
    expect(statuses).toEqual([200, 200, 429])
  })

  test('whose subject is a number have its text', async () => {
    const limits = [{ name: 'per-user', key: 'user', otherwise: 'deny', limit: 1, per: '1h' }]
    const { upstream, gateway } = await start({}, { limits })
    expect((await ask(gateway.url, bearer(await sign({ sub: 5, org: 7 })))).status).toBe(200)
    expect((await ask(gateway.url, bearer(await sign({ sub: '5' })))).status).toBe(429)
    expect(upstream.seen[0]?.headers).toMatchObject({
      'x-tidegate-user': '5',
      'x-tidegate-organisation': '7',
    })
  })

  test.each([null, true, '', 1.5, 2 ** 53, ['a'], { a: 1 }])(
    'whose subject is %j get 401',
    async (sub) => {
      const { upstream, gateway } = await start()
      const { status, headers } = await ask(gateway.url, bearer(await sign({ sub })))
      expect(status).toBe(401)
      expect(headers['www-authenticate']).toBe('Bearer error="invalid_token"')
      expect(upstream.seen).toHaveLength(0)
    },
  )

  test('without a subject pass, and have no user', async () => {
    const { upstream, gateway } = await start()
    expect((await ask(gateway.url, bearer(await sign({ org: 'org_1' })))).status).toBe(200)
    expect(upstream.seen[0]?.headers).toMatchObject({ 'x-tidegate-organisation': 'org_1' })
    expect(upstream.seen[0]?.headers).not.toHaveProperty('x-tidegate-user')
  })

  test('are checked with keys that are fetched once, and get 503 without them', async () => {
    let fetched = 0
    let isUp = true
    const server = createServer((_request, response) => {
      fetched += 1
      response.statusCode = isUp ? 200 : 500
      response.end(JSON.stringify(jwks))
    })
    const port = await listening(server)
    onTestFinished(() => void server.close())
    const jwksUrl = `http://127.0.0.1:${port}/jwks`
    const up = await start({ jwksUrl, jwksFile: undefined })
    for (const sub of ['a', 'b', 'c']) {
      expect((await ask(up.gateway.url, bearer(await sign({ sub })))).status).toBe(200)
    }
    expect(fetched).toBe(1)
    isUp = false
    const down = await start({ jwksUrl, jwksFile: undefined })
    expect((await ask(down.gateway.url, bearer(await sign({})))).status).toBe(503)
  })
})

describe('addresses', () => {
  const limits = [{ name: 'one', key: 'ip', limit: 1, per: '1h' }]

  test('on the deny list get 403 before anything else', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url] } },
      ipLists: { deny: ['127.0.0.0/8'] },
    })
    expect((await ask(gateway.url)).status).toBe(403)
    expect((await ask(`${gateway.url}/health`)).status).toBe(200)
    expect(upstream.seen).toHaveLength(0)
  })

  test('on the allow list are not limited', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url] } },
      ipLists: { allow: ['127.0.0.1'] },
      limits,
    })
    for (let count = 0; count < 3; count += 1) expect((await ask(gateway.url)).status).toBe(200)
  })

  test('that clients make up are not believed', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url] } },
      limits,
    })
    const statuses: number[] = []
    for (const ip of ['1.1.1.1', '2.2.2.2', '3.3.3.3']) {
      statuses.push((await ask(gateway.url, { 'x-forwarded-for': ip })).status)
    }
    expect(statuses).toEqual([200, 429, 429])
  })

  test('that trusted proxies tell have a limit each', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway({
      gateway: { trustProxy: 1 },
      upstreams: { api: { targets: [upstream.url] } },
      limits,
    })
    const statuses: number[] = []
    for (const ip of ['9.9.9.9, 1.1.1.1', '2001:db8::1', '8.8.8.8, 1.1.1.1', '2001:db8::2']) {
      statuses.push((await ask(gateway.url, { 'x-forwarded-for': ip })).status)
    }
    expect(statuses).toEqual([200, 200, 429, 429])
  })
})
