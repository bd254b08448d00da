import { request as httpRequest } from 'node:http'
import { describe, expect, test } from 'vitest'
import { type Role, roles } from '../control/roles.ts'
import { BOOTSTRAP, startAdminService } from './admin-contract.ts'
import { routeTable } from './route-table.ts'

const filled = (path: string) => path.replace(/\{\w+\}/g, '1')

/** Every unsafe route gets an empty body: the role is checked before it. */
const bodyOf = (method: string) => (method === 'GET' ? {} : { body: {} })

describe('every route', () => {
  test('is 401 without a credential, 403 with too low a role, and open to the others', async () => {
    const { call, tokenFor } = await startAdminService()
    const tokens = new Map<Role, string>()
    for (const role of roles) tokens.set(role, await tokenFor(role))
    const found: string[] = []
    for (const { method, path } of routeTable) {
      const statusWith = async (token: string | undefined) =>
        (await call(method, filled(path), { token, ...bodyOf(method) })).status
      const line = [`${method} ${path}`, `none ${await statusWith(undefined)}`]
      for (const role of roles) {
        const status = await statusWith(tokens.get(role))
        const isOpen = status !== 401 && status !== 403 && status < 500
        line.push(`${role} ${isOpen ? 'open' : status}`)
      }
      found.push(line.join(' '))
    }
    const expected = routeTable.map(({ method, path, role }) => {
      const needed = roles.indexOf(role)
      const cells = roles.map((one, at) => `${one} ${at < needed ? 403 : 'open'}`)
      return [`${method} ${path}`, 'none 401', ...cells].join(' ')
    })
    expect(found).toEqual(expected)
    expect(found.length).toBeGreaterThan(25)
  })

  test('responds as the OpenAPI document describes', async () => {
    const { call } = await startAdminService()
    const { body } = await call('GET', '/openapi.json', { token: undefined })
    interface Described {
      readonly responses: Record<string, { readonly content: Record<string, object> }>
    }
    const paths = body.paths as Record<string, Record<string, Described>>
    for (const { method, path } of routeTable) {
      const responses = paths[path]?.[method.toLowerCase()]?.responses ?? {}
      for (const token of [undefined, BOOTSTRAP]) {
        const answer = await call(method, filled(path), { token, ...bodyOf(method) })
        const { status, headers } = answer
        const described = responses[status] ?? (status >= 400 ? responses.default : undefined)
        const type = headers.get('content-type') ?? ''
        expect(Object.keys(described?.content ?? {}), `${method} ${path} ${status}`).toEqual([type])
        if (type === 'application/problem+json') {
          expect(answer.body).toMatchObject({ status, detail: expect.any(String) })
        }
        expect(headers.get('cache-control')).toBe('no-store')
        expect(headers.get('x-content-type-options')).toBe('nosniff')
      }
    }
  })

  test('describes the body of its success, field by field', async () => {
    const { call } = await startAdminService()
    const { body } = await call('GET', '/openapi.json', { token: undefined })
    type Schema = Partial<Record<'type' | 'properties' | 'anyOf', unknown>>
    interface Described {
      readonly responses: {
        readonly 200: { readonly content: Record<string, { readonly schema: Schema }> }
      }
    }
    const paths = body.paths as Record<string, Record<string, Described>>
    const bare = routeTable.filter(({ method, path, type }) => {
      const content = paths[path]?.[method.toLowerCase()]?.responses[200].content
      const { properties, anyOf } = content?.[type]?.schema ?? {}
      return type === 'application/json' && properties === undefined && anyOf === undefined
    })
    expect(bare).toEqual([])
    // A client must accept fields that a later version adds.
    const responses = Object.values(paths).flatMap((one) =>
      Object.values(one).map((o) => o.responses[200]),
    )
    expect(JSON.stringify(responses)).not.toContain('"additionalProperties":false')
  })

  test('is under /v1/, has one entry in the table and is in the OpenAPI document', async () => {
    const { call } = await startAdminService()
    const names = routeTable.map(({ method, path }) => `${method} ${path}`)
    expect(new Set(names).size).toBe(names.length)
    expect(routeTable.filter(({ path }) => !path.startsWith('/v1/'))).toEqual([])
    const { body } = await call('GET', '/openapi.json', { token: undefined })
    const paths = body.paths as Record<string, Record<string, { operationId: string }>>
    const listed = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    )
    expect(listed.sort()).toEqual(names.sort())
    const ids = Object.values(paths).flatMap((one) => Object.values(one).map((o) => o.operationId))
    expect(new Set(ids).size).toBe(names.length)
  })
})

describe('paths', () => {
  test.for([
    '/v1/',
    '/v1',
    '/v1/none',
    '/v1/policy/versions/{version}',
    '/v1/policy/versions/%7Bversion%7D',
    '/v1/policy/versions/..%2f',
    '/v1/%73tatus',
    '/v1//status',
    '/v1/status/',
    '/V1/status',
  ])('%s is 401 without a token and 404 with one', async (path) => {
    const { url } = await startAdminService()
    const port = Number(new URL(url).port)
    const statusOf = (headers: Record<string, string>) =>
      new Promise<number | undefined>((resolve, reject) => {
        const asked = httpRequest({ host: '127.0.0.1', port, path, headers }, (response) => {
          response.resume()
          resolve(response.statusCode)
        })
        asked.on('error', reject).end()
      })
    expect(await statusOf({})).toBe(401)
    const authorization = 'Bearer bootstrap-token-of-the-tests-0123456789'
    expect(await statusOf({ authorization })).toBe(404)
  })
})

describe('without a credential in the policy', () => {
  test('only the three pages are served', async () => {
    const { call } = await startAdminService({ admin: {} })
    for (const path of ['/health', '/ready', '/status']) {
      expect((await call('GET', path, { token: undefined })).status).toBe(200)
    }
    for (const path of ['/v1/status', '/v1/tokens', '/openapi.json']) {
      expect((await call('GET', path)).status).toBe(404)
    }
  })
})

describe('the start', () => {
  test.for<[object, RegExp]>([
    [{ listen: { host: '0.0.0.0', port: 0 }, token: { env: 'ADMIN_TOKEN' } }, /in the clear/],
    [{ listen: { host: '::', port: 0 }, certificates: { ops: 'admin' } }, /add admin\.tls/],
    [{ token: { env: 'NOT_SET' } }, /admin\.token: the environment variable NOT_SET/],
  ])('with %j is refused in words', async ([admin, message]) => {
    await expect(startAdminService({ admin })).rejects.toThrow(message)
  })

  test('with pages alone may listen on all addresses', async () => {
    const admin = { listen: { host: '0.0.0.0', port: 0 } }
    const { call } = await startAdminService({ admin })
    expect((await call('GET', '/ready', { token: undefined })).status).toBe(200)
  })
})

describe('bodies', () => {
  test('need a content type that forms cannot send', async () => {
    const { call } = await startAdminService()
    const headers = { 'content-type': 'text/plain' }
    const { status } = await call('PUT', '/v1/switch', { body: '{}', headers })
    expect(status).toBe(415)
  })

  test.for<[unknown, number, RegExp]>([
    ['not json', 400, /not JSON/],
    [[], 422, /body/],
    [{ limits: 'off' }, 422, /why/],
    [{ limits: 'off', why: '' }, 422, /why/],
    [{ limits: 'off', why: 'line\nbreak' }, 422, /without control characters/],
    [{ limits: 'off', why: 'red \u001b[31m' }, 422, /without control characters/],
    [{ limits: 'off', why: 'evil \u202e text' }, 422, /without control characters/],
    [{ limits: 'on', why: 'x', extra: 1 }, 422, /extra/],
    [{ limits: 'maybe', why: 'x' }, 422, /on, shadow/],
    [{ limits: 'on', why: 'x'.repeat(501) }, 422, /why/],
    [{ limits: 'on', why: 'x'.repeat(600_000) }, 413, /more than 524288 bytes/],
  ])('%j: %i', async ([body, status, detail]) => {
    const { call } = await startAdminService()
    const answer = await call('PUT', '/v1/switch', { body })
    expect({ status: answer.status, detail: answer.body.detail }).toEqual({
      status,
      detail: expect.stringMatching(detail),
    })
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the subject of the test
    expect(answer.text).not.toMatch(/[\u001b\u202e]/)
  })
})
