import { type Context, Hono } from 'hono'
import { describe, expect, it } from 'vitest'
import { fixedWindow } from '../limits/limits.ts'
import { type HonoOptions, tidegate } from './hono.ts'

const limit = fixedWindow({ limit: 1, per: '1h' })

/** An app as on a runtime without sockets; errors are answered with their code. */
function appWith(options: HonoOptions): Hono {
  const app = new Hono()
  app.use(tidegate(options))
  app.get('/', (context) => context.text('ok'))
  app.get('/raw', () => new Response('raw', { headers: { 'x-own': 'yes' } }))
  app.get('/fetched', () => fetch('data:text/plain,fetched'))
  app.onError((error, context) => context.text(String(Reflect.get(error, 'code')), 500))
  return app
}

const from = (address: string) => ({ headers: { 'x-real-ip': address } })

describe('tidegate for Hono', () => {
  it('takes the address that the runtime tells', async () => {
    const remoteAddress = (context: Context) => context.req.header('x-real-ip')
    const app = appWith({ limit, remoteAddress })
    expect((await app.request('/', from('192.0.2.1'))).status).toBe(200)
    expect((await app.request('/', from('192.0.2.1'))).status).toBe(429)
    expect((await app.request('/', from('192.0.2.2'))).status).toBe(200)
  })

  it('asks for a key or an address rather than taking all clients for one', async () => {
    const response = await appWith({ limit }).request('/')
    expect([response.status, await response.text()]).toEqual([500, 'wrong-use'])
    const remoteAddress = () => undefined
    expect((await appWith({ limit, remoteAddress }).request('/')).status).toBe(500)
    expect((await appWith({ limit, key: () => 'ann' }).request('/')).status).toBe(200)
    const proxied = { headers: { 'x-forwarded-for': '192.0.2.1' } }
    expect((await appWith({ limit, trustProxy: 1 }).request('/', proxied)).status).toBe(200)
  })

  it('says what to do about it', async () => {
    const app = appWith({ limit })
    app.onError((error, context) => context.text(error.message, 500))
    expect(await (await app.request('/')).text()).toMatch(/pass key or remoteAddress$/)
  })

  it.each(['/', '/raw', '/fetched'])('sets the header fields of any response: %s', async (path) => {
    const response = await appWith({ limit, key: () => 'ann' }).request(path)
    expect(response.status).toBe(200)
    expect(response.headers.get('ratelimit')).toMatch(/^"default";r=0;t=\d+$/)
    expect(response.headers.get('x-ratelimit-limit')).toBe('1')
    expect(response.headers.get('x-own')).toBe(path === '/raw' ? 'yes' : null)
    expect(await response.text()).toBe(path === '/' ? 'ok' : path.slice(1))
  })

  it.each<[string, NonNullable<HonoOptions['handler']>]>([
    ['the context', (context) => context.json({ slow: 'down' })],
    ['itself', () => Response.json({ slow: 'down' }, { status: 429 })],
  ])('sets the header fields of a response that the handler makes by %s', async (_, handler) => {
    const app = appWith({ limit, handler, key: () => 'ann' })
    await app.request('/')
    const denied = await app.request('/')
    expect([denied.status, await denied.json()]).toEqual([429, { slow: 'down' }])
    expect(denied.headers.get('retry-after')).toMatch(/^\d+$/)
    expect(denied.headers.get('cache-control')).toBe('no-store')
    expect(denied.headers.get('content-type')).toMatch(/^application\/json/)
  })

  it('gives back what failed where the runtime is not Node', async () => {
    const app = appWith({ limit, key: () => 'ann', skipFailedRequests: true })
    expect((await app.request('/missing')).status).toBe(404)
    await new Promise(setImmediate)
    expect((await app.request('/')).status).toBe(200)
    expect((await app.request('/')).status).toBe(429)
  })

  it('refuses an address that is not a function', () => {
    const options = { limit, remoteAddress: '192.0.2.1' } as unknown as HonoOptions
    expect(() => tidegate(options)).toThrow(/^tidegate\.remoteAddress: got "192\.0\.2\.1"/)
  })
})
