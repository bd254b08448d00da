import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express, { type ErrorRequestHandler, type Express } from 'express'
import { afterEach, describe, expect, it } from 'vitest'
import type { Decision } from '../decision.ts'
import { createLimiter } from '../limiter/create-limiter.ts'
import { fixedWindow } from '../limits/limits.ts'
import { tidegate } from './express.ts'

const limit = fixedWindow({ limit: 1, per: '1h' })

const closers: (() => void)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

async function serve(app: Express): Promise<string> {
  const server = createServer(app)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  closers.push(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

describe('tidegate for Express', () => {
  it('limits a single route', async () => {
    const app = express()
    app.get('/limited', tidegate({ limit }), (_request, response) => void response.send('ok'))
    app.get('/free', (_request, response) => void response.send('ok'))
    const url = await serve(app)
    expect((await fetch(`${url}/limited`)).status).toBe(200)
    expect((await fetch(`${url}/limited`)).status).toBe(429)
    expect((await fetch(`${url}/free`)).headers.has('ratelimit')).toBe(false)
  })

  it.each([
    ['key', { key: () => Promise.reject() }],
    ['handler', { limit: fixedWindow({ limit: 0, per: '1h' }), handler: () => Promise.reject() }],
  ])('admits no request whose %s rejects without an error', async (_, options: object) => {
    const app = express()
    app.use(tidegate({ limit, ...options }))
    app.get('/', (_request, response) => void response.send('ok'))
    app.use(((error, _request, response, _next) => {
      response.status(500).send(error.message)
    }) satisfies ErrorRequestHandler)
    const response = await fetch(await serve(app))
    expect([response.status, await response.text()]).toEqual([
      500,
      'a function of the options has thrown no error',
    ])
  })

  it('knows the types of the request in all of its functions', async () => {
    const app = express()
    app.use(
      tidegate({
        limit: fixedWindow({ limit: (_key, request) => Number(request.get('x-limit')), per: '1h' }),
        key: (request) => request.path,
        cost: (request) => request.path.length,
        skip: (request) => request.ip === undefined,
      }),
    )
    const url = await serve(app)
    const response = await fetch(`${url}/abc`, { headers: { 'x-limit': '10' } })
    expect(response.headers.get('x-ratelimit-remaining')).toBe('6')
  })

  it('takes a layered limiter, and shows its decision to the handler', async () => {
    const limiter = createLimiter({
      limits: { org: fixedWindow({ limit: 9, per: '1h' }), user: limit },
    })
    const app = express()
    const seen: Decision[] = []
    app.use(
      tidegate({
        limiter,
        key: () => ({ org: 'acme', user: 'ann' }),
        handler(request, response, next, decision) {
          seen.push(decision)
          if ('violated' in decision && request.path === '/') response.json(decision.violated)
          else next()
        },
      }),
    )
    app.get('/on', (_request, response) => void response.status(200).send('went on'))
    const url = await serve(app)
    await fetch(url)
    const denied = await fetch(url)
    expect([denied.status, await denied.json()]).toEqual([429, ['user']])
    expect(await (await fetch(`${url}/on`)).text()).toBe('went on')
    expect(seen).toHaveLength(2)
  })

  it('leaves a response alone that another handler has sent', async () => {
    const app = express()
    const errors: unknown[] = []
    app.use((_request, response, next) => {
      response.end('too late')
      next()
    })
    app.use(tidegate({ limit }))
    app.use((_request, _response, next) => next())
    app.use((error: unknown, _request: unknown, _response: unknown, next: () => void) => {
      errors.push(error)
      next()
    })
    const url = await serve(app)
    for (const _ of [1, 2, 3]) expect(await (await fetch(url)).text()).toBe('too late')
    expect(errors).toEqual([])
  })
})
