/**
 * Plugin for Fastify: `await app.register(tidegate, { limit })`, and for single routes
 * `config: { tidegate: { limit } }` or `config: { tidegate: false }`.
 *
 * A route without a limit of its own shares the counters of the registered one. A route with one
 * has its own counters, under its own name.
 */

import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { createGuard, type Guard, type GuardDecision } from '../http/guard.ts'
import { checkGuardOptions, type GuardOptions, hasLimit, ofStore } from '../http/guard-options.ts'
import { settleWhenSent } from '../http/node-adapter.ts'
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
  /** When to evaluate: `preHandler` if the key needs the body or a user. Default: `onRequest`. */
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

/** The plugin, for `app.register`. Denied requests are answered with 429. */
export async function tidegate(app: FastifyInstance, options: FastifyOptions): Promise<void> {
  checkGuardOptions(options, { hook: ['onRequest', 'preHandler'] })
  const { hook = 'onRequest', ...registered } = options
  const findRoute = routeFinder(registered, hopsOf(app) === undefined)

  async function limitRequest(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const { config, url } = request.routeOptions
    const route = findRoute(config?.tidegate, url)
    const outcome = await route?.guard.evaluate(request)
    if (route === undefined || outcome === undefined || reply.sent) return undefined
    outcome.writeHead({
      getHeader: (name) => reply.getHeader(name),
      setHeader: (name, value) => reply.header(name, value),
    })
    settleWhenSent(outcome, reply.raw)
    if (outcome.problem === undefined) return undefined
    reply.code(outcome.problem.status)
    if (route.handler === undefined) {
      return reply.type(PROBLEM_CONTENT_TYPE).send(JSON.stringify(outcome.problem))
    }
    const body = await route.handler(request, reply, outcome.decision)
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

/** Finds the guard of a route by its `config.tidegate` and its URL; undefined if it has none. */
type RouteFinder = (
  config: FastifyRouteOptions | false | undefined,
  url: string | undefined,
) => GuardedRoute | undefined

function routeFinder(registered: FastifyRouteOptions, trustsByAddress: boolean): RouteFinder {
  const guarded = guardedBy(trustsByAddress)
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

function guardedBy(trustsByAddress: boolean) {
  const trustedAddress = (request: FastifyRequest) => {
    // Fastify has the list only if its trustProxy is set. The first entry is the socket's peer.
    const { ips } = request
    const isSet = ips !== undefined && (trustsByAddress || ips.length > 1)
    return isSet ? request.ip : undefined
  }
  return (options: FastifyRouteOptions): GuardedRoute => {
    const guard = createGuard(options, {
      remoteAddress: (request) => request.socket.remoteAddress,
      forwardedFor: (request) => request.headers['x-forwarded-for']?.toString(),
      trustedAddress,
    })
    return { guard, handler: options.handler }
  }
}

/**
 * `trustProxy` of Fastify if it is a number. Fastify 5.12 takes that for no trust in any proxy, so
 * that all clients behind one share an address. No public property has the setting.
 */
function hopsOf(app: object): number | undefined {
  for (let at: object | null = app; at !== null; at = Object.getPrototypeOf(at)) {
    const symbols = Object.getOwnPropertySymbols(at)
    const symbol = symbols.find(({ description }) => description === 'fastify.options')
    if (symbol === undefined) continue
    const { trustProxy } = Object(Reflect.get(at, symbol)) as { readonly trustProxy?: unknown }
    return typeof trustProxy === 'number' ? trustProxy : undefined
  }
  return undefined
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
