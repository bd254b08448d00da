/**
 * Plugin for Fastify: `await app.register(tidegate, { limit })`, and for single routes
 * `config: { tidegate: { limit } }` or `config: { tidegate: false }`.
 *
 * A route without a limit of its own shares the counters of the registered one. A route with one
 * has its own counters, under its own name.
 */

import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify'
import { createGuard, type Guard, type GuardDecision, type GuardOutcome } from '../http/guard.ts'
import {
  checkGuardOptions,
  type GuardOptions,
  hasLimit,
  type MaybePromise,
  ofStore,
} from '../http/guard-options.ts'
import type { ResponseHead } from '../http/headers.ts'
import { errorOf, settleWhenSent, whenKnown } from '../http/node-adapter.ts'
import { PROBLEM_CONTENT_TYPE, type Problem } from '../http/problem.ts'
import { type IsKeyed, keysOf } from '../idempotency/node/keyed-requests.ts'

export interface FastifyRouteOptions extends GuardOptions<FastifyRequest> {
  /**
   * Answers denied requests: sends the body, or returns it. Status and header fields are set.
   */
  readonly handler?: (
    request: FastifyRequest,
    reply: FastifyReply,
    decision: GuardDecision,
  ) => unknown
}

export interface FastifyOptions extends FastifyRouteOptions {
  /**
   * When to evaluate: `preHandler` if the key needs the body or a user. Default: `onRequest`; for
   * requests with an idempotency key `preHandler`, if the plugin of these was registered before.
   */
  readonly hook?: 'onRequest' | 'preHandler'
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Replaces the registered options for this route, or switches them off. */
    tidegate?: FastifyRouteOptions | false
  }
}

/** The longest name that a limiter accepts. */
const NAME_LENGTH_MAX = 64

/** The plugin, for `app.register`. Denied requests are answered with 429. */
export async function tidegate(app: FastifyInstance, options: FastifyOptions): Promise<void> {
  checkGuardOptions(options, { hook: ['onRequest', 'preHandler'] })
  const { hook, ...registered } = options
  const findRoute = routeFinder(registered, hopsOf(app) === undefined)

  // A callback, because a hook that returns a promise delays every request.
  function limitRequest(
    request: FastifyRequest,
    reply: FastifyReply,
    done: (error?: Error) => void,
  ): void {
    const fail = (error: unknown) => done(errorOf(error))
    const proceed = (denial: Denial | undefined) => {
      if (denial === undefined) done()
      else deny(request, reply, denial).catch(fail)
    }
    const { config, url } = request.routeOptions
    whenKnown(() => evaluate(findRoute(config?.tidegate, url), request, reply), proceed, fail)
  }

  // So that a mistake in a route's options shows when the route is declared.
  app.addHook('onRoute', ({ config, url }) => {
    findRoute(config?.tidegate, url)
  })
  const keys = hook === undefined ? keysOf(app) : []
  if (keys.length > 0) addHooks(app, keys, limitRequest)
  else if (hook === 'preHandler') app.addHook('preHandler', limitRequest)
  else app.addHook('onRequest', limitRequest)
}

/** Limits requests with a key behind the keys, which are looked up when the body is parsed. */
function addHooks(app: FastifyInstance, keys: readonly IsKeyed[], limit: onRequestHookHandler) {
  const isKeyed = ({ method, headers }: FastifyRequest) => {
    return keys.some((isOne) => isOne(method, headers))
  }
  app.addHook('onRequest', function limitUnkeyed(request, reply, done) {
    if (isKeyed(request)) done()
    else limit.call(this, request, reply, done)
  })
  app.addHook('preHandler', function limitKeyed(request, reply, done) {
    if (isKeyed(request)) limit.call(this, request, reply, done)
    else done()
  })
}

// Like fastify-plugin: the hooks are for the app that registers, not for a child of it.
Object.assign(tidegate, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'tidegate',
})

interface Denial {
  readonly problem: Problem
  readonly decision: GuardDecision
  readonly handler: FastifyRouteOptions['handler']
}

/** Evaluates the request, and sets the header fields of its reply. Undefined if it is admitted. */
function evaluate(
  route: GuardedRoute | undefined,
  request: FastifyRequest,
  reply: FastifyReply,
): MaybePromise<Denial | undefined> {
  if (route === undefined) return undefined
  const { guard, handler } = route
  const apply = (outcome: GuardOutcome | undefined): Denial | undefined => {
    if (outcome === undefined || reply.sent) return undefined
    outcome.writeHead(new ReplyHead(reply))
    settleWhenSent(outcome, reply.raw)
    const { problem, decision } = outcome
    return problem === undefined ? undefined : { problem, decision, handler }
  }
  const outcome = guard.evaluate(request)
  return outcome instanceof Promise ? outcome.then(apply) : apply(outcome)
}

class ReplyHead implements ResponseHead {
  readonly #reply: FastifyReply

  constructor(reply: FastifyReply) {
    this.#reply = reply
  }

  getHeader(name: string) {
    return this.#reply.getHeader(name)
  }

  setHeader(name: string, value: string): void {
    this.#reply.header(name, value)
  }
}

async function deny(
  request: FastifyRequest,
  reply: FastifyReply,
  { problem, decision, handler }: Denial,
): Promise<void> {
  reply.code(problem.status)
  if (handler === undefined) {
    reply.type(PROBLEM_CONTENT_TYPE).send(JSON.stringify(problem))
    return
  }
  const body = await handler(request, reply, decision)
  // A request without a reply would stay open.
  if (!reply.sent) reply.send(body)
}

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
  // By options and URL: routes that Fastify adds, for HEAD or a slash at the end, share both.
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
