/**
 * Plugin for Fastify: `await app.register(tidegate, { limit })`, and for single routes
 * `config: { tidegate: { limit } }` or `config: { tidegate: false }`.
 *
 * A route that tells no limit of its own shares the registered one's counters; one that does has
 * its own, under its own name.
 */

import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { createGuard, type Guard, type GuardDecision } from '../http/guard.ts'
import { checkGuardOptions, type GuardOptions, hasLimit, ofStore } from '../http/guard-options.ts'
import { settleWhenSent } from '../http/node-response.ts'
import { PROBLEM_CONTENT_TYPE } from '../http/problem.ts'

export interface FastifyRouteOptions extends GuardOptions<FastifyRequest> {
  /**
   * Answers denied requests: sends, or returns what to send. Status and header fields are set, the
   * body is the handler's.
   */
  readonly handler?: (
    request: FastifyRequest,
    reply: FastifyReply,
    decision: GuardDecision,
  ) => unknown
}

export interface FastifyOptions extends FastifyRouteOptions {
  /** When to judge: `preHandler` where the key needs the body or a user. Default: `onRequest`. */
  readonly hook?: 'onRequest' | 'preHandler'
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Replaces the registered options for this route, or switches them off. */
    tidegate?: FastifyRouteOptions | false
  }
}

/** What a limiter accepts as a name. */
const NAME_LENGTH_MAX = 64

export async function tidegate(app: FastifyInstance, options: FastifyOptions): Promise<void> {
  checkGuardOptions(options, { hook: ['onRequest', 'preHandler'] })
  const { hook = 'onRequest', ...registered } = options
  const findRoute = routeFinder(registered)

  async function limitRequest(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const { config, url } = request.routeOptions
    const route = findRoute(config?.tidegate, url)
    const verdict = await route?.guard.judge(request)
    if (route === undefined || verdict === undefined || reply.sent) return undefined
    verdict.writeHead({
      getHeader: (name) => reply.getHeader(name),
      setHeader: (name, value) => reply.header(name, value),
    })
    settleWhenSent(verdict, reply.raw)
    if (verdict.problem === undefined) return undefined
    reply.code(verdict.problem.status)
    if (route.handler === undefined) {
      return reply.type(PROBLEM_CONTENT_TYPE).send(JSON.stringify(verdict.problem))
    }
    const body = await route.handler(request, reply, verdict.decision)
    // A reply that is not sent would go on to the route.
    return reply.sent ? reply : reply.send(body)
  }

  // So that a mistake in a route's options shows when the route is declared.
  app.addHook('onRoute', ({ config, url }) => {
    findRoute(config?.tidegate, url)
  })
  if (hook === 'onRequest') app.addHook('onRequest', limitRequest)
  else app.addHook('preHandler', limitRequest)
}

// What fastify-plugin would do: the hooks are for the app that registers, not for a child of it.
Object.assign(tidegate, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'tidegate',
})

interface GuardedRoute {
  readonly guard: Guard<FastifyRequest>
  readonly handler: FastifyRouteOptions['handler']
}

/** Finds the guard of a route by its `config.tidegate` and its URL; undefined where it has none. */
type RouteFinder = (
  config: FastifyRouteOptions | false | undefined,
  url: string | undefined,
) => GuardedRoute | undefined

function routeFinder(registered: FastifyRouteOptions): RouteFinder {
  const everywhere = hasLimit(registered) ? guarded(registered) : undefined
  // By options and URL: what Fastify adds to a route, for HEAD or a slash at the end, shares both.
  const found = new WeakMap<FastifyRouteOptions, Map<string, GuardedRoute>>()
  return (config, fullUrl = '') => {
    if (config === undefined) return everywhere
    if (config === false) return undefined
    const url = fullUrl.endsWith('/') ? fullUrl.slice(0, -1) : fullUrl
    const known = found.get(config)?.get(url)
    if (known !== undefined) return known
    const route = guarded(inheriting(config, registered, everywhere?.guard, url))
    found.set(config, (found.get(config) ?? new Map()).set(url, route))
    return route
  }
}

function guarded(options: FastifyRouteOptions): GuardedRoute {
  const guard = createGuard(options, {
    remoteAddress: (request) => request.socket.remoteAddress,
    forwardedFor: (request) => request.headers['x-forwarded-for']?.toString(),
    // Fastify has the list only if its trustProxy is set.
    trustedAddress: (request) => (request.ips === undefined ? undefined : request.ip),
  })
  return { guard, handler: options.handler }
}

function inheriting(
  config: FastifyRouteOptions,
  registered: FastifyRouteOptions,
  guard: Guard<FastifyRequest> | undefined,
  url: string,
): FastifyRouteOptions {
  const { limiter, limit, limits, name, within, shared: outer, ...others } = registered
  const { store, deadlineMs, onStoreError, onOverload, observer, ...inherited } = others
  if (!hasLimit(config)) {
    const shared = guard === undefined ? undefined : { limiter: guard.limiter }
    return { ...inherited, ...shared, ...config }
  }
  return {
    ...inherited,
    ...(config.limiter === undefined ? ofStore(registered) : undefined),
    ...(config.limit === undefined ? undefined : { name: nameOf(url) }),
    ...config,
  }
}

/** Different for every URL, because in a shared store limits of one name would be one counter. */
function nameOf(url: string): string {
  const name = url.replace(/[^A-Za-z0-9_.:/-]/g, '_') || '/'
  if (name.length <= NAME_LENGTH_MAX) return name
  const digest = createHash('sha256').update(url).digest('hex').slice(0, 8)
  return `${name.slice(0, NAME_LENGTH_MAX - digest.length - 1)}_${digest}`
}
