/**
 * The library on edge runtimes, which have the globals of the web and nothing of Node.js. Bundles
 * import no `node:` module, and run in contexts with web globals only.
 */

import { createContext, runInContext } from 'node:vm'
import { describe, expect, test } from 'vitest'
import { startRedis } from '../support/servers/redis.ts'
import { startUpstash } from '../support/servers/upstash.ts'
import { bundle } from './bundle.ts'

/** The globals of all edge runtimes: https://min-common-api.proposal.wintertc.org */
const webGlobals = {
  ...{
    AbortController,
    AbortSignal,
    Event,
    EventTarget,
    Headers,
    Request,
    Response,
    TextDecoder,
    TextEncoder,
    URL,
  },
  ...{ URLSearchParams, atob, btoa, clearInterval, clearTimeout, console, crypto, fetch },
  ...{ performance, queueMicrotask, setInterval, setTimeout },
}

/** Runs a function of a bundled program; its result must be JSON. */
async function runAtEdge(program: string, packages: readonly string[] = []): Promise<unknown> {
  const { script, imports } = await bundle(program, packages)
  expect(imports).toEqual([])
  const scope = { isGlobal: true }
  const context = createContext({ ...webGlobals, ...onlyInHandlers(scope) })
  runInContext(script, context)
  scope.isGlobal = false
  return JSON.parse(await runInContext('bundled.run().then(JSON.stringify)', context))
}

/** Workers refuse these while a module is loaded, outside of a handler. */
function onlyInHandlers(scope: { readonly isGlobal: boolean }) {
  const inHandler = <A extends readonly unknown[], R>(name: string, run: (...args: A) => R) => {
    return (...args: A): R => {
      if (scope.isGlobal) throw new Error(`${name} is not allowed in the global scope`)
      return run(...args)
    }
  }
  return {
    crypto: {
      subtle: crypto.subtle,
      randomUUID: inHandler('randomUUID', () => crypto.randomUUID()),
      getRandomValues: inHandler('getRandomValues', (array: Uint32Array<ArrayBuffer>) =>
        crypto.getRandomValues(array),
      ),
    },
    fetch: inHandler('fetch', fetch),
    setInterval: inHandler('setInterval', setInterval),
    setTimeout: inHandler('setTimeout', setTimeout),
  }
}

describe('without any module of Node.js', () => {
  test.each([
    ...['tidegate', 'tidegate/http', 'tidegate/hono', 'tidegate/redis'],
    ...['tidegate/idempotency', 'tidegate/idempotency/hono'],
  ])('%s is bundled', async (entry) => {
    const { files, imports } = await bundle(`export * from '${entry}'`)
    expect(files).not.toEqual([])
    expect(imports).toEqual([])
  })

  test('tidegate/testing is bundled, but for its test runner', async () => {
    const { imports } = await bundle(`export * from 'tidegate/testing'`)
    expect(imports).toEqual(['vitest'])
  })

  test('an import of one is noticed', async () => {
    const { imports } = await bundle(`export * from 'tidegate/fastify'`)
    expect(imports).toEqual(['node:crypto'])
  })

  test('limits are kept in memory', async () => {
    const statuses = await runAtEdge(`
      import { createLimiter, concurrency, tokenBucket } from 'tidegate'
      export async function run() {
        const limiter = createLimiter({ limit: tokenBucket({ limit: 3, per: '1h' }) })
        const reservation = await limiter.reserve('ada', 2)
        await reservation.commit(1)
        const slots = createLimiter({ limit: concurrency({ limit: 1, ttl: '1m' }) })
        const slot = await slots.acquire('ada')
        const second = await slots.acquire('ada')
        await slot.release()
        const checks = [await limiter.check('ada'), limiter.checkSync('ada')]
        checks.push(await limiter.wait('ada', { timeoutMs: 1 }))
        return [slot, second, ...checks].map(({ allowed }) => allowed)
      }
    `)
    expect(statuses).toEqual([true, false, true, true, false])
  })

  test('a request with an idempotency key is executed once by that for Hono', async () => {
    const bodies = await runAtEdge(
      `
      import { Hono } from 'hono'
      import { idempotency } from 'tidegate/idempotency/hono'
      const app = new Hono()
      app.use(idempotency({ scope: (context) => context.req.header('x-user') }))
      let count = 0
      app.post('/', async (context) => context.text(await context.req.text() + ++count))
      export async function run() {
        const send = async (user) => {
          const headers = { 'x-user': user, 'idempotency-key': 'one' }
          return (await app.request('/', { method: 'POST', headers, body: 'run ' })).text()
        }
        return [await send('ada'), await send('ada'), await send('eve')]
      }
    `,
      ['hono'],
    )
    expect(bodies).toEqual(['run 1', 'run 1', 'run 2'])
  })

  test('requests are limited by the middleware for Hono', async () => {
    const program = `
      import { Hono } from 'hono'
      import { tokenBucket } from 'tidegate'
      import { tidegate } from 'tidegate/hono'
      const app = new Hono()
      app.use(tidegate({
        limit: tokenBucket({ limit: 1, per: '1h' }),
        key: (context) => context.req.header('x-user'),
        remoteAddress: (context) => context.req.header('cf-connecting-ip'),
      }))
      app.get('/', (context) => context.text('ok'))
      export async function run() {
        const statusOf = async (headers) => (await app.request('/', { headers })).status
        const long = 'x'.repeat(2000)
        return [
          await statusOf({ 'cf-connecting-ip': '192.0.2.1' }),
          await statusOf({ 'cf-connecting-ip': '192.0.2.1' }),
          await statusOf({ 'cf-connecting-ip': '2001:db8::1' }),
          await statusOf({ 'x-user': long }),
          await statusOf({ 'x-user': long }),
        ]
      }
    `
    expect(await runAtEdge(program, ['hono'])).toEqual([200, 429, 200, 200, 429])
  })

  test('limits are shared over HTTP', async () => {
    const server = await startRedis()
    const { url, token, stop } = await startUpstash(server)
    const program = `
      import { Redis } from '@upstash/redis/cloudflare'
      import { createLimiter, slidingWindow } from 'tidegate'
      import { redisStore } from 'tidegate/redis'
      const redis = new Redis({ url: '${url}', token: '${token}', retry: false })
      const limiter = createLimiter({
        limit: slidingWindow({ limit: 3, per: '30d', onStoreError: 'closed' }),
        store: redisStore(redis),
        deadlineMs: 10_000,
      })
      export async function run() {
        const decisions = await Promise.all([1, 2, 3, 4, 5].map(() => limiter.check('ada')))
        await limiter.close()
        return decisions.map(({ allowed }) => allowed)
      }
    `
    try {
      const allowed = await runAtEdge(program, ['@upstash/redis/cloudflare', 'uncrypto'])
      expect(allowed).toEqual([true, true, true, false, false])
    } finally {
      await stop()
      await server.stop()
    }
  })
})
