import fastify, { type FastifyInstance } from 'fastify'
import { afterEach, describe, expect, it } from 'vitest'
import { createLimiter } from '../limiter/create-limiter.ts'
import { fixedWindow } from '../limits/limits.ts'
import { memoryStore } from '../stores/memory/memory-store.ts'
import { type FastifyOptions, type FastifyRouteOptions, tidegate } from './fastify.ts'

const per = (limit: number) => fixedWindow({ limit, per: '1h' })

const apps: FastifyInstance[] = []
afterEach(async () => {
  await Promise.all(apps.splice(0).map((app) => app.close()))
})

type Configs = Record<string, FastifyRouteOptions | false | undefined>

/** An app with a GET route for each path. */
async function appWith(options: FastifyOptions, configs: Configs = {}): Promise<FastifyInstance> {
  const app = fastify()
  apps.push(app)
  await app.register(tidegate, options)
  for (const [url, config] of Object.entries(configs)) {
    const own = config === undefined ? {} : { config: { tidegate: config } }
    app.get(url, own, async () => 'ok')
  }
  return app
}

async function statuses(app: FastifyInstance, url: string, times: number): Promise<number[]> {
  const found: number[] = []
  while (found.length < times) found.push((await app.inject(url)).statusCode)
  return found
}

describe('tidegate for Fastify', () => {
  it('counts what is not found', async () => {
    const app = await appWith({ limit: per(2) }, { '/': undefined })
    expect(await statuses(app, '/missing', 2)).toEqual([404, 404])
    expect(await statuses(app, '/missing', 1)).toEqual([429])
    expect(await statuses(app, '/', 1)).toEqual([429])
  })

  it('counts what is not found before the handler, too', async () => {
    const app = await appWith({ limit: per(1), hook: 'preHandler' })
    app.setNotFoundHandler(async (_request, reply) => reply.code(404).send('none'))
    expect(await statuses(app, '/missing', 2)).toEqual([404, 429])
  })

  it.each([
    ['key', { limit: per(1), key: () => Promise.reject() }],
    ['handler', { limit: per(0), handler: () => Promise.reject() }],
  ])('admits no request whose %s rejects without an error', async (_, options: FastifyOptions) => {
    const app = await appWith(options, { '/': undefined })
    const { message } = (await app.inject('/')).json()
    expect(message).toBe('a function of the options has thrown no error')
  })

  it('is switched off for a route', async () => {
    const app = await appWith({ limit: per(1) }, { '/': undefined, '/free': false })
    expect(await statuses(app, '/free', 3)).toEqual([200, 200, 200])
    expect(await statuses(app, '/', 2)).toEqual([200, 429])
  })

  it('replaces the limit for a route, which then has counters of its own', async () => {
    const app = await appWith({ limit: per(1) }, { '/': undefined, '/more': { limit: per(2) } })
    expect(await statuses(app, '/more', 3)).toEqual([200, 200, 429])
    expect(await statuses(app, '/', 2)).toEqual([200, 429])
  })

  it('inherits everything else, and the counters where a route has no limit', async () => {
    const everybody = { key: () => 'everybody', headers: 'ietf', deadlineMs: 100 } as const
    const registered = { limit: per(5), ...everybody }
    const app = await appWith(registered, {
      '/': undefined,
      '/dear': { cost: 3 },
      '/own': { limit: per(7), headers: 'x-ratelimit' },
    })
    const dear = await app.inject('/dear')
    expect(dear.headers).toMatchObject({ ratelimit: expect.stringMatching(/^"default";r=2;/) })
    expect(dear.headers).not.toHaveProperty('x-ratelimit-limit')
    expect(await statuses(app, '/', 3)).toEqual([200, 200, 429])
    const own = await app.inject('/own')
    expect(own.headers).toMatchObject({ 'x-ratelimit-limit': '7' })
    expect(own.headers).not.toHaveProperty('ratelimit')
  })

  it('names the limit of a route after it, also in a shared store', async () => {
    const long = `/${'a'.repeat(70)}`
    const options = { limit: per(1), store: memoryStore() }
    const app = await appWith(options, {
      '/': undefined,
      '/users/:id': { limit: per(2) },
      '/files/*': { limit: per(2) },
      [`${long}/b`]: { limit: per(2) },
      [`${long}/c`]: { limit: per(2) },
    })
    const policies: unknown[] = []
    for (const url of ['/', '/users/7', '/files/x/y', `${long}/b`, `${long}/c`]) {
      const { headers, statusCode } = await app.inject(url)
      expect(statusCode).toBe(200)
      policies.push(headers['ratelimit-policy'])
    }
    expect(policies.slice(0, 3)).toEqual([
      '"1-per-1h";q=1;w=3600',
      '"/users/:id";q=2;w=3600',
      '"/files/_";q=2;w=3600',
    ])
    expect(new Set(policies).size).toBe(5)
  })

  it('counts HEAD and a slash at the end with the route that they belong to', async () => {
    const app = fastify()
    apps.push(app)
    await app.register(tidegate, {})
    await app.register(
      async (child) => {
        child.get('/', { config: { tidegate: { limit: per(3) } } }, async () => 'ok')
      },
      { prefix: '/api' },
    )
    expect(await statuses(app, '/api', 1)).toEqual([200])
    expect(await statuses(app, '/api/', 1)).toEqual([200])
    expect((await app.inject({ method: 'HEAD', url: '/api/' })).statusCode).toBe(200)
    expect(await statuses(app, '/api', 1)).toEqual([429])
  })

  it('gives every route its own counters, also where they share their options', async () => {
    const strict = { limit: per(1) }
    const app = await appWith({}, { '/login': strict, '/signup': strict })
    expect(await statuses(app, '/login', 2)).toEqual([200, 429])
    expect(await statuses(app, '/signup', 1)).toEqual([200])
  })

  it('lets routes share a limiter', async () => {
    const limiter = createLimiter({ limit: per(2) })
    const app = await appWith({ store: memoryStore() }, { '/a': { limiter }, '/b': { limiter } })
    expect(await statuses(app, '/a', 1)).toEqual([200])
    expect(await statuses(app, '/b', 2)).toEqual([200, 429])
  })

  it('limits only the routes that say so where it is registered without a limit', async () => {
    const app = await appWith({}, { '/': undefined, '/limited': { limit: per(1) } })
    expect(await statuses(app, '/', 3)).toEqual([200, 200, 200])
    expect(await statuses(app, '/missing', 2)).toEqual([404, 404])
    expect(await statuses(app, '/limited', 2)).toEqual([200, 429])
  })

  it('stays within the part of the app that registers it', async () => {
    const app = fastify()
    apps.push(app)
    app.get('/free', async () => 'ok')
    await app.register(async (child) => {
      await child.register(tidegate, { limit: per(1) })
      child.get('/limited', async () => 'ok')
    })
    expect(await statuses(app, '/limited', 2)).toEqual([200, 429])
    expect(await statuses(app, '/free', 2)).toEqual([200, 200])
  })

  it('judges after the body was read where the hook is preHandler', async () => {
    const app = fastify()
    apps.push(app)
    const key = ({ body }: { body: unknown }) => String(Reflect.get(Object(body), 'user'))
    await app.register(tidegate, { limit: per(1), hook: 'preHandler', key })
    app.post('/', async () => 'ok')
    const post = async (user: string) =>
      (await app.inject({ method: 'POST', url: '/', payload: { user } })).statusCode
    expect([await post('ann'), await post('ann'), await post('bob')]).toEqual([200, 429, 200])
  })

  it('sends what the handler of a route returns', async () => {
    const handler = () => ({ slow: 'down' })
    const app = await appWith({ limit: per(0) }, { '/': { handler } })
    const denied = await app.inject('/')
    expect([denied.statusCode, denied.json()]).toEqual([429, { slow: 'down' }])
  })

  it('leaves a reply alone that was sent while the key was looked up', async () => {
    const app = fastify()
    apps.push(app)
    const turn = () => new Promise(setImmediate)
    const found = Promise.withResolvers<void>()
    const handled: string[] = []
    app.addHook('onRequest', (_request, reply, done) => {
      setImmediate(() => reply.send('too late'))
      done()
    })
    await app.register(tidegate, {
      limit: per(0),
      async key() {
        await turn()
        await turn()
        found.resolve()
        return 'ann'
      },
      handler: ({ url }) => handled.push(url),
    })
    app.get('/', async () => 'ok')
    expect((await app.inject('/')).body).toBe('too late')
    await found.promise
    await turn()
    expect(handled).toEqual([])
  })

  it('refuses wrong options when registered, and those of a route when declared', async () => {
    const wrongHook = { limit: per(1), hook: 'onSend' } as unknown as FastifyOptions
    await expect(appWith(wrongHook)).rejects.toMatchObject({ path: 'tidegate.hook' })
    const wrong = { limits: {}, limit: per(1) }
    await expect(appWith({}, { '/': wrong })).rejects.toMatchObject({ code: 'invalid-option' })
    await expect(appWith({}, { '/': { cost: 2 } })).rejects.toMatchObject({ path: 'tidegate' })
  })
})
