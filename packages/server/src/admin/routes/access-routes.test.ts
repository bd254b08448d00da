import { request } from 'node:http'
import { describe, expect, test } from 'vitest'
import { BOOTSTRAP, startAdminService } from '../admin-contract.ts'

async function withSession(options?: Parameters<typeof startAdminService>[0]) {
  const service = await startAdminService(options)
  const token = await service.tokenFor('operate')
  const answer = await service.call('POST', '/v1/session', { token })
  const cookie = answer.headers.get('set-cookie') ?? ''
  const pair = cookie.split(';')[0] ?? ''
  const call = (method: string, path: string, headers: object = {}, body?: unknown) =>
    service.call(method, path, {
      token: undefined,
      headers: { cookie: pair, ...headers },
      ...(body === undefined ? undefined : { body }),
    })
  return { ...service, token, cookie, answer, asBrowser: call }
}

describe('tokens', () => {
  test('are shown once, listed without secrets, and end when they are revoked', async () => {
    const { call, tokenFor } = await startAdminService()
    const token = await tokenFor('operate')
    expect(token).toMatch(/^tg_[0-9a-f]{12}_[\w-]{43}$/)
    expect((await call('GET', '/v1/session', { token })).body).toEqual({
      kind: 'token',
      name: 'test operate',
      role: 'operate',
    })
    const { text, body } = await call('GET', '/v1/tokens')
    expect(text).not.toContain(token.slice(-20))
    expect(text).not.toContain('hash')
    const [listed] = body.tokens as { id: string; lastUsed: string | null }[]
    expect(listed?.lastUsed).not.toBeNull()
    const revocation = { id: listed?.id, why: 'a laptop was lost' }
    expect((await call('POST', '/v1/tokens/revoke', { body: revocation })).status).toBe(200)
    expect((await call('GET', '/v1/session', { token })).status).toBe(401)
  })

  test('have an end', async () => {
    const { call } = await startAdminService()
    const body = { name: 'short', role: 'read', for: '1ms', why: 'a test' }
    const token = String((await call('POST', '/v1/tokens', { body })).body.token)
    expect((await call('GET', '/v1/session', { token })).status).toBe(401)
  })
})

describe('a session', () => {
  test('has a cookie that scripts and other sites cannot use', async () => {
    const { cookie, asBrowser } = await withSession()
    expect(cookie).toMatch(
      /^__Host-tidegate=[\w-]+\.[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Strict/,
    )
    expect((await asBrowser('GET', '/v1/session')).body).toMatchObject({
      kind: 'session',
      role: 'operate',
    })
  })

  test.for<[object, number]>([
    [{ 'sec-fetch-site': 'same-origin' }, 200],
    [{ 'sec-fetch-site': 'cross-site' }, 403],
    [{ 'sec-fetch-site': 'same-site' }, 403],
    [{ 'sec-fetch-site': 'none' }, 403],
    [{ origin: 'http://evil.example' }, 403],
    [{}, 403],
  ])('changes something only from the same origin: %j %i', async ([headers, status]) => {
    const { asBrowser } = await withSession()
    const body = { kind: 'user', value: 'u', for: '1h', why: 'x' }
    // Node's fetch sets Sec-Fetch-Mode alone, so that the fields of a browser can be given.
    expect((await asBrowser('PUT', '/v1/blocks', headers, body)).status).toBe(status)
  })

  test('accepts an Origin that is the own one', async () => {
    const { asBrowser, url } = await withSession()
    const body = { kind: 'user', value: 'u', for: '1h', why: 'x' }
    expect((await asBrowser('PUT', '/v1/blocks', { origin: url }, body)).status).toBe(200)
  })

  test('has an id of its own, whatever cookie the client sends', async () => {
    const { call, token, cookie } = await withSession()
    const chosen = '__Host-tidegate=chosen-by-an-attacker'
    const headers = { cookie: chosen }
    expect((await call('GET', '/v1/session', { token: undefined, headers })).status).toBe(401)
    const answer = await call('POST', '/v1/session', { token, headers })
    const other = answer.headers.get('set-cookie') ?? ''
    expect(other).not.toContain('chosen')
    expect(other.split(';')[0]).not.toBe(cookie.split(';')[0])
    expect((await call('GET', '/v1/session', { token: undefined, headers })).status).toBe(401)
  })

  test('begins with a token, not with another session', async () => {
    const { asBrowser } = await withSession()
    const own = { 'sec-fetch-site': 'same-origin' }
    expect((await asBrowser('POST', '/v1/session', own)).status).toBe(403)
  })

  test('ends with a log-out, and with its token', async () => {
    const { asBrowser, token, call } = await withSession()
    const own = { 'sec-fetch-site': 'same-origin' }
    const out = await asBrowser('DELETE', '/v1/session', own)
    expect(out.headers.get('set-cookie')).toContain('Max-Age=0')
    expect((await asBrowser('GET', '/v1/session')).status).toBe(401)
    const again = await call('POST', '/v1/session', { token })
    const cookie = again.headers.get('set-cookie')?.split(';')[0] ?? ''
    const body = { id: token.slice(3, 15), why: 'x' }
    await call('POST', '/v1/tokens/revoke', { body })
    const ended = await call('GET', '/v1/session', { token: undefined, headers: { cookie } })
    expect(ended.status).toBe(401)
  })
})

describe('the host', () => {
  test.for<[string, number]>([
    ['localhost:1', 200],
    ['127.0.0.1', 200],
    ['[::1]:80', 200],
    ['ops.example:8083', 200],
    ['evil.example', 421],
    ['127.0.0.1.evil.example', 421],
    ['', 421],
  ])('%j: %i', async ([host, status]) => {
    const admin = { token: { env: 'ADMIN_TOKEN' }, hosts: ['ops.example'] }
    const { url } = await startAdminService({ admin })
    const headers = { host, authorization: 'Bearer bootstrap-token-of-the-tests-0123456789' }
    const found = await new Promise<number | undefined>((resolve, reject) => {
      const asked = request(`${url}/v1/status`, { headers, setHost: false }, (response) => {
        response.resume()
        resolve(response.statusCode)
      })
      asked.on('error', reject).end()
    })
    expect(found).toBe(status)
  })
})

describe('wrong tokens from many addresses', () => {
  test('lock out other addresses, and not those of operators', async () => {
    const { url } = await startAdminService()
    const statusOf = (localAddress: string, token: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        const headers = { authorization: `Bearer ${token}` }
        const asked = request(`${url}/v1/session`, { headers, localAddress }, (response) => {
          response.resume()
          resolve(response.statusCode)
        })
        asked.on('error', reject).end()
      })
    expect(await statusOf('127.0.0.2', BOOTSTRAP)).toBe(200)
    for (let at = 0; at < 50; at++) await statusOf(`127.0.1.${1 + (at % 25)}`, 'wrong')
    expect(await statusOf('127.0.0.3', BOOTSTRAP)).toBe(429)
    expect(await statusOf('127.0.0.2', BOOTSTRAP)).toBe(200)
    for (let at = 0; at < 5; at++) expect(await statusOf('127.0.0.2', 'wrong')).toBe(401)
    expect(await statusOf('127.0.0.2', BOOTSTRAP)).toBe(429)
  })
})
