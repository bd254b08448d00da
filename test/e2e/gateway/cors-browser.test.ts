/** A page in a real browser that calls the gateway on another origin. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { hmacOf } from '../../../packages/server/src/gateway/auth/api-keys.ts'
import { type Chromium, chromiumBinary, startChromium } from '../../support/servers/chromium.ts'
import { makeAuthority } from './authority.ts'
import { startTestGateway } from './test-gateway.ts'
import { startUpstream } from './test-upstream.ts'

const binary = chromiumBinary()
if (binary === undefined) {
  console.info('skipped: no Chromium; apt-get install chromium-headless-shell brings it')
}

const SECRET = 'a secret of the gateway'

/** The result of a request in a page: its readable fields, or that it can read nothing. */
interface Seen {
  readonly status?: number
  readonly text?: string
  readonly fields?: Readonly<Record<string, string>>
  readonly error?: string
}

// Chromium is brought by `./run.sh test`; some machines have no package of it.
describe.skipIf(binary === undefined)('a page of another origin', () => {
  let chromium: Chromium

  beforeAll(async () => {
    chromium = await startChromium(binary ?? '')
  })

  afterAll(() => chromium?.close())

  /** A page, and a gateway that needs API keys and allows 2 requests per key and hour. */
  async function start(corsOf: (origin: string) => object, gateway: object = {}) {
    const folder = mkdtempSync(join(tmpdir(), 'tidegate-browser-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const keys = ['one', 'two', 'three'].map(
      (key) => `- { hmac: ${hmacOf(key, SECRET)}, id: ${key} }`,
    )
    writeFileSync(join(folder, 'keys.yaml'), keys.join('\n'))
    const site = await startUpstream((_request, response) => {
      response.setHeader('content-type', 'text/html').end('<title>a page</title>')
    })
    const api = await startUpstream((incoming, response) => {
      if (incoming.method === 'OPTIONS') {
        const allowed = { 'access-control-allow-origin': '*', 'access-control-allow-headers': '*' }
        response.writeHead(204, { ...allowed, 'access-control-allow-methods': '*' }).end()
        return
      }
      response.setHeader('access-control-allow-origin', '*')
      response.setHeader('set-cookie', 'session=s1; Path=/')
      response.end(`${incoming.method} with ${incoming.headers.cookie ?? 'no cookie'}`)
    })
    const apiKeys = { secret: { env: 'KEY_SECRET' }, file: 'keys.yaml', required: true }
    const perKey = { name: 'per-key', key: 'apiKey', otherwise: 'skip', limit: 2, per: '1h' }
    const { url } = await startTestGateway(
      {
        ...corsOf(site.url),
        gateway,
        auth: { apiKeys },
        upstreams: { api: { targets: [api.url] } },
        limits: [{ ...perKey, algorithm: 'fixedWindow' }],
      },
      { folder, environment: { KEY_SECRET: SECRET } },
    )
    const page = await chromium.open(site.url)
    const ask = (options: object) => page.run(fetching(`${url}/things`, options)) as Promise<Seen>
    return { api, ask }
  }

  const fetching = (url: string, options: object) => `async () => {
    try {
      const response = await fetch(${JSON.stringify(url)}, ${JSON.stringify(options)})
      const fields = Object.fromEntries(response.headers)
      return { status: response.status, text: await response.text(), fields }
    } catch (error) {
      return { error: error.name }
    }
  }`

  const put = (key: string) => ({
    method: 'PUT',
    credentials: 'include',
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
    body: '{}',
  })

  const allowed = (origin: string) => ({ cors: { origins: [origin], credentials: true } })

  test('reads answers, cookies included, and how long to wait', async () => {
    const { api, ask } = await start(allowed)
    expect(await ask(put('one'))).toMatchObject({ status: 200, text: 'PUT with no cookie' })
    const second = await ask(put('one'))
    expect(second).toMatchObject({ status: 200, text: 'PUT with session=s1' })
    expect(second.fields).toMatchObject({
      'x-ratelimit-remaining': '0',
      ratelimit: expect.stringMatching(/^"per-key";r=0;t=\d+$/),
      'ratelimit-policy': '"per-key";q=2;w=3600',
    })
    const denied = await ask(put('one'))
    expect(denied.status).toBe(429)
    expect(denied.fields?.['retry-after']).toMatch(/^\d+$/)
    expect(JSON.parse(denied.text ?? '')).toMatchObject({ 'violated-policies': ['per-key'] })
    // The gateway has answered the pre-flights.
    expect(api.seen.map(({ method }) => method)).toEqual(['PUT', 'PUT'])
  })

  test('reads why it is refused without a key', async () => {
    const { ask } = await start(allowed)
    const { status, text } = await ask({})
    expect([status, JSON.parse(text ?? '').detail]).toEqual([401, 'An API key is needed.'])
  })

  test('asks over HTTP/2 as well', async () => {
    const { certFile, keyFile } = makeAuthority().issue('localhost', 'IP:127.0.0.1')
    const { api, ask } = await start(allowed, { tls: { cert: certFile, key: keyFile } })
    expect(await ask(put('two'))).toMatchObject({ status: 200 })
    expect(api.seen[0]?.headers.via).toMatch(/^2 /)
    expect(await ask(put('two'))).toMatchObject({ status: 200 })
    const denied = await ask(put('two'))
    expect(denied).toMatchObject({ status: 429, fields: { 'x-ratelimit-limit': '2' } })
    expect(denied.fields?.['retry-after']).toMatch(/^\d+$/)
  })

  test('that is not allowed reads nothing', async () => {
    const { ask } = await start(() => ({ cors: { origins: ['https://app.example.com'] } }))
    expect(await ask({ headers: { 'x-api-key': 'three' } })).toEqual({ error: 'TypeError' })
    expect(await ask({})).toEqual({ error: 'TypeError' })
  })

  test('is served by an upstream with CORS if the policy has no section', async () => {
    const { api, ask } = await start(() => ({}))
    const withKey = { headers: { 'x-api-key': 'three' } }
    expect(await ask(withKey)).toMatchObject({ status: 200, text: 'GET with no cookie' })
    expect(api.seen.map(({ method }) => method)).toEqual(['OPTIONS', 'GET'])
    expect(await ask(withKey)).toMatchObject({ status: 200 })
    // A refusal of the gateway has no CORS fields.
    expect(await ask(withKey)).toEqual({ error: 'TypeError' })
  })
})
