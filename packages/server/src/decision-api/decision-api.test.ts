import { memoryStore } from 'tidegate'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { RunningListener } from '../http-api/listener.ts'
import { createEnforcer, type Enforcer } from '../limits/enforcer.ts'
import { FailedAttempts } from '../limits/failed-attempts.ts'
import { Overload } from '../overload/overload.ts'
import { parsePolicy } from '../policy/read-policy.ts'
import { startDecisionApi } from './decision-api.ts'
import { evaluateCheck, priorityMax, priorityOfChecks } from './evaluate-check.ts'

const TOKEN = 'a-token-for-tests'

const failures = new FailedAttempts('off')
const overload = new Overload({ delay: 100, requestsMax: 1_000, criticalShare: 0.2 })

let api: RunningListener
let enforcer: Enforcer
const errors: unknown[] = []

beforeAll(async () => {
  const policy = parsePolicy({
    upstreams: { api: { targets: ['http://127.0.0.1:1'] } },
    ipLists: { deny: ['203.0.113.66'], allow: ['203.0.113.77'] },
    limits: [
      { name: 'everyone', key: 'everyone', limit: 1_000, per: '1h' },
      { name: 'per-key', key: 'apiKey', otherwise: 'skip', limit: 2, per: '1h' },
      {
        name: 'writes',
        match: { methods: ['POST'] },
        key: ['user', 'path'],
        otherwise: 'deny',
        limit: 1,
        per: '1h',
      },
      {
        name: 'slots',
        match: { path: '/slow' },
        key: 'everyone',
        algorithm: 'concurrency',
        limit: 1,
        ttl: '10s',
      },
      {
        name: 'payments',
        match: { path: '/payments/**' },
        key: 'everyone',
        limit: 1_000,
        per: '1h',
        priority: 'critical',
      },
      { name: 'trial', mode: 'shadow', key: 'apiKey', otherwise: 'skip', limit: 1, per: '1h' },
    ],
  })
  if (!policy.ok) throw new Error(policy.problems.map(({ message }) => message).join('\n'))
  enforcer = createEnforcer(policy.document, { store: memoryStore() })
  api = await startDecisionApi({
    host: '127.0.0.1',
    port: 0,
    token: TOKEN,
    batchMax: 3,
    bodyBytesMax: 10_000,
    version: '0.0.0',
    failures,
    ipv6Prefix: 64,
    overload,
    priorityMax: () => priorityMax(enforcer),
    priorityOf: (checks) => priorityOfChecks(enforcer, checks),
    evaluate: (check) => evaluateCheck(enforcer, check),
    onError: (error) => void errors.push(error),
  })
})

afterAll(() => api.close())

async function post(body: unknown, token: string | undefined = TOKEN) {
  const response = await fetch(`http://127.0.0.1:${api.address.port}/v1/check`, {
    method: 'POST',
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

describe('POST /v1/check', () => {
  test('judges a request by the limits that match, all or nothing', async () => {
    const request = { identity: { apiKey: 'one' }, ip: '203.0.113.9' }
    const first = await post({ request })
    expect(first.status).toBe(200)
    expect(first.body).toMatchObject({
      outcome: 'admitted',
      allowed: true,
      refusedBy: null,
      decision: { remaining: 1, retryAfterMs: 0, degraded: null },
      limits: [{ name: 'everyone' }, { name: 'per-key', remaining: 1 }],
      shadowed: [{ name: 'trial', allowed: true }],
    })
    expect((await post({ request })).body.shadowed).toMatchObject([
      { name: 'trial', allowed: false },
    ])
    const third = await post({ request })
    expect(third.body).toMatchObject({ outcome: 'denied', allowed: false, refusedBy: 'per-key' })
    const { limits } = third.body as { limits: { name: string; remaining: number }[] }
    const used = 1_000 - (limits.find(({ name }) => name === 'everyone')?.remaining ?? 0)
    expect(used).toBeLessThanOrEqual(3)
  })

  test('judges limits by their names, with the keys that it is given', async () => {
    const check = { limits: [{ name: 'per-key', key: ['two'], cost: 2 }] }
    expect((await post({ ...check, peek: true })).body).toMatchObject({ allowed: true })
    expect((await post(check)).body).toMatchObject({ allowed: true, decision: { remaining: 0 } })
    expect((await post(check)).body).toMatchObject({ allowed: false, refusedBy: 'per-key' })
  })

  test('counts with what a request has counted', async () => {
    await post({ request: { identity: { apiKey: 'three' } } })
    const { body } = await post({ limits: [{ name: 'per-key', key: ['three'] }] })
    expect(body).toMatchObject({ allowed: true, decision: { remaining: 0 } })
  })

  test('answers several at once, in order', async () => {
    const check = { limits: [{ name: 'per-key', key: ['four'] }] }
    const { body } = await post({ checks: [check, check, check] })
    const results = body.results as { allowed: boolean }[]
    expect(results.map(({ allowed }) => allowed)).toEqual([true, true, false])
  })

  test('charges none of several where one is wrong, and says which', async () => {
    const good = { limits: [{ name: 'per-key', key: ['five'] }] }
    const { status, body } = await post({ checks: [good, { limits: [{ name: 'none' }] }] })
    expect(status).toBe(400)
    expect(body.detail).toBe('checks[1].limits[0].name: no limit of the policy is named "none"')
    expect((await post({ ...good, peek: true })).body).toMatchObject({ decision: { remaining: 2 } })
  })

  test('asks the lists of addresses first', async () => {
    const request = { method: 'POST', ip: '203.0.113.66' }
    expect((await post({ request })).body).toMatchObject({ outcome: 'forbidden', allowed: false })
    const exempt = await post({ request: { ...request, ip: '203.0.113.77' } })
    expect(exempt.body).toMatchObject({ outcome: 'admitted', limits: [] })
  })

  test('says that a key is missing', async () => {
    const { body } = await post({ request: { method: 'POST' } })
    expect(body).toMatchObject({ outcome: 'missing-key', allowed: false, refusedBy: 'writes' })
  })

  test('holds no slots: it tells whether there is one', async () => {
    for (let time = 0; time < 2; time++) {
      expect((await post({ request: { path: '/slow' } })).body).toMatchObject({ allowed: true })
    }
  })

  test.for([
    ['{', 'not JSON'],
    [{}, 'body: is not allowed; allowed: a mapping with one of request, limits and checks'],
    ['[]', 'allowed: a mapping'],
    ['null', 'allowed: a mapping'],
    [{ request: { path: '/pay?x=1' } }, 'request.path: "/pay?x=1" is not allowed; allowed: a path'],
    [{ request: {}, limits: [] }, 'body: is not allowed; allowed: a mapping with one of'],
    [{ request: {}, peak: true }, 'peak: is not known; did you mean peek?'],
    [{ request: {}, tier: 'x' }, 'tier: is not known; allowed: request, cost, peek'],
    [{ request: { query: '' } }, 'request.query: is not known; allowed: method, path, ip,'],
    [{ request: {}, peek: 1 }, 'peek: 1 is not allowed; allowed: true or false'],
    [{ request: {}, cost: -1 }, 'cost: -1 is not allowed; allowed: at least 0'],
    [{ request: { method: 'G T' } }, 'request.method: "G T" is not allowed; allowed: a method'],
    [{ checks: [{ request: {} }, 5] }, 'checks[1]: is not allowed; allowed: a mapping with either'],
    [
      { checks: [{ request: {}, x: 1 }] },
      'checks[0].x: is not known; allowed: request, cost, peek',
    ],
    [{ checks: [{ request: {} }], peek: true }, 'peek: is not known; allowed: checks'],
    [{ checks: 5 }, 'checks: 5 is not allowed; allowed: a list'],
    [{ limits: [] }, 'limits'],
    [{ request: { path: 'no-slash' } }, 'request.path'],
    [{ request: { ip: 'here' } }, 'request.ip: "here" is not allowed; allowed: an IP address'],
    [{ limits: [{ name: 'none' }] }, 'no limit of the policy is named "none"'],
    [{ limits: [{ name: 'per-key', key: [] }] }, 'per-key is counted by apiKey'],
    [{ limits: [{ name: 'slots' }] }, 'concurrency limit'],
    [{ limits: [{ name: 'per-key', key: ['x'], cost: -1 }] }, 'limits[0].cost'],
    [{ checks: Array.from({ length: 4 }, () => ({ request: {} })) }, 'checks'],
  ] as const)('%j is refused with its place', async ([body, detail]) => {
    const answer = await post(body)
    expect(answer.status).toBe(400)
    expect(answer.body.detail).toContain(detail)
  })

  test('repeats a bounded part of a body that is wrong', async () => {
    const names = Array.from({ length: 300 }, (_, at) => [`${'n'.repeat(20)}${at}`, 1])
    const bodies = [
      { request: {}, ...Object.fromEntries(names) },
      { request: {}, ['n'.repeat(9_000)]: 1 },
      { request: { path: 'x'.repeat(9_000) } },
      { request: { ['\u202e'.repeat(3_000)]: 1 } },
      { request: { identity: { claims: { ['n'.repeat(9_000)]: 1 } } } },
    ]
    for (const body of bodies) {
      const { status, body: problem } = await post(body)
      expect(status).toBe(400)
      expect(JSON.stringify(problem).length).toBeLessThan(1_500)
    }
  })

  test('only looks at a request if it is asked to', async () => {
    const check = { request: { identity: { apiKey: 'peeked' } } }
    for (let time = 0; time < 5; time++) {
      const { body } = await post({ ...check, peek: true })
      expect(body).toMatchObject({ allowed: true, decision: { remaining: 2 } })
      expect((await post({ ...check, cost: 0 })).body).toMatchObject({ allowed: true })
    }
    await post(check)
    await post(check)
    expect((await post({ ...check, peek: true })).body).toMatchObject({
      allowed: false,
      refusedBy: 'per-key',
    })
    const slot = { request: { path: '/slow' }, peek: true }
    for (let time = 0; time < 3; time++) {
      expect((await post(slot)).body).toMatchObject({ allowed: true })
    }
  })

  test('charges a request the cost that it is told', async () => {
    const check = { request: { identity: { apiKey: 'dear' } } }
    expect((await post({ ...check, cost: 3 })).body).toMatchObject({ allowed: false })
    const { body } = await post({ ...check, cost: 2 })
    expect(body).toMatchObject({ allowed: true, decision: { remaining: 0 } })
    expect((await post(check)).body).toMatchObject({ allowed: false })
  })

  test('refuses a body that is too large', async () => {
    expect((await post(' '.repeat(10_001))).status).toBe(413)
  })
})

test('an error that no part should throw gets 500, and is reported', async () => {
  const working = enforcer
  onTestFinished(() => {
    enforcer = working
  })
  const defect = new Error('a defect')
  enforcer = new Proxy(working, {
    get: () => {
      throw defect
    },
  })
  const { status, body } = await post({ request: { path: '/' } })
  expect({ status, detail: body.detail }).toEqual({
    status: 500,
    detail: 'The request could not be served.',
  })
  expect(errors).toEqual([defect])
})

describe('the token', () => {
  test.for(['Bearer', 'bearer', 'BEARER '])('comes after %j', async (scheme) => {
    const response = await fetch(`http://127.0.0.1:${api.address.port}/v1/check`, {
      method: 'POST',
      headers: { authorization: `${scheme} ${TOKEN}` },
      body: '{"request":{}}',
    })
    expect(response.status).toBe(200)
  })

  test.for([undefined, '', 'wrong', `${TOKEN}x`])('the token %j gets 401', async (token) => {
    const { status, body } = await post({ request: {} }, token ?? '')
    expect({ status, body }).toMatchObject({ status: 401, body: { title: 'Unauthorized' } })
  })

  test('gets 429 from an address that has sent too many wrong ones', async () => {
    failures.use({ limit: 1, per: 60_000 })
    onTestFinished(() => failures.use('off'))
    await post({ request: {} }, 'wrong')
    const response = await fetch(`http://127.0.0.1:${api.address.port}/v1/check`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}` },
      body: '{"request":{}}',
    })
    expect(response.status).toBe(429)
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(await response.json()).toEqual({
      title: 'Too Many Requests',
      status: 429,
      detail: 'This address has sent too many wrong tokens.',
      request_id: response.headers.get('x-request-id'),
    })
    const without = await fetch(`http://127.0.0.1:${api.address.port}/v1/check`)
    expect(without.status).toBe(401)
  })

  test.for(['/v1/check', '/v1/other', '/', '/v1/check?x'])('is asked for at %s', async (path) => {
    const response = await fetch(`http://127.0.0.1:${api.address.port}${path}`)
    expect(response.status).toBe(401)
    expect(response.headers.get('www-authenticate')).toBe('Bearer')
  })
})

test('the OpenAPI document describes both shapes and is public', async () => {
  const response = await fetch(`http://127.0.0.1:${api.address.port}/openapi.json`)
  const document = (await response.json()) as {
    openapi: string
    paths: Record<string, unknown>
    components: {
      schemas: { Check: { anyOf: unknown[] }; Batch: { properties: { checks: object } } }
    }
  }
  expect(document).toMatchObject({ openapi: '3.1.0', servers: [{ url: '/' }] })
  expect(Object.keys(document.paths)).toEqual(['/v1/check', '/health', '/openapi.json'])
  expect(document.components.schemas.Check.anyOf).toHaveLength(2)
  expect(document.components.schemas.Batch.properties.checks).toMatchObject({ maxItems: 3 })
})

describe('in an overload', () => {
  const late = (samples: number, delayMs: number) => {
    for (let at = 0; at < samples; at++) overload.observe(delayMs, 500)
  }

  test('checks that are not critical get 503, and a time to come back', async () => {
    late(10, 1_000)
    const answers = await Promise.all([
      post({ request: {} }),
      post({ limits: [{ name: 'everyone' }] }),
      post({ request: { path: '/payments/1' } }),
      post({ limits: [{ name: 'payments' }] }),
      post({ checks: [{ request: {} }, { request: { path: '/payments/1' } }] }),
    ])
    expect(answers.map(({ status }) => status)).toEqual([503, 503, 200, 200, 200])
    const response = await fetch(`http://127.0.0.1:${api.address.port}/v1/check`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}` },
      body: '{"request":{}}',
    })
    expect(Number(response.headers.get('retry-after'))).toBeOneOf([1, 2, 3, 4, 5])
    expect(response.headers.get('content-type')).toBe('application/problem+json')
    expect(await response.json()).toEqual({
      title: 'Service Unavailable',
      status: 503,
      detail: 'The decision API is overloaded.',
      request_id: response.headers.get('x-request-id'),
    })
    expect(overload.status().shed).toEqual({ sheddable: 0, normal: 3, critical: 0 })
  })

  test('health is answered, and when the loop is on time again so is everything', async () => {
    const health = await fetch(`http://127.0.0.1:${api.address.port}/health`)
    expect(health.status).toBe(200)
    late(60, 0)
    expect((await post({ request: {} })).status).toBe(200)
    expect(overload.status().requests).toBe(0)
  })
})
