/**
 * The guard: the HTTP side of a limiter. It finds the key and the cost of a request, calls the
 * limiter, and returns the header fields and the problem of the response. It does not depend on a
 * framework: a middleware passes a request and a way to set header fields, and sends the response.
 *
 * A request without a key of its own is counted by its IP, never in one bucket with all others.
 */

import type { Decision, LayeredDecision } from '../decision.ts'
import { invalid, TidegateError } from '../errors.ts'
import { isTooLong } from '../limiter/keys.ts'
import type { Evaluation } from '../limiter/limiter.ts'
import { StoreLimiter } from '../limiter/store-limiter.ts'
import { type FrameworkAddressSource, guardIp } from './guard-ip.ts'
import {
  type FoundKeys,
  type GuardLimiter,
  type GuardOptions,
  type GuardSettings,
  type Keys,
  type MaybePromise,
  OPTIONS_PATH,
  type OwnOptions,
  parseGuardOptions,
} from './guard-options.ts'
import { type ResponseHead, writeHeaders } from './headers.ts'
import { type Problem, problemOf } from './problem.ts'

export interface Guard<Request> {
  readonly limiter: GuardLimiter<Request>
  /**
   * Decides about a request and charges it; undefined if it is skipped. Returns a promise only if
   * the store or a function of the options does. Throws, or rejects, if such a function does.
   */
  evaluate(request: Request): MaybePromise<GuardOutcome | undefined>
}

/** Layered if the guard's limiter is. */
export type GuardDecision = Decision | LayeredDecision

export interface GuardOutcome {
  readonly decision: GuardDecision
  /** The response of a denied request. */
  readonly problem: Problem | undefined
  /** Sets the header fields of the rate limit and, for a denial, of the retry time. */
  writeHead(head: ResponseHead): void
  /**
   * Must be called with the status after the response was sent, and not if it was aborted:
   * otherwise a client could get the work for nothing by disconnecting. Undefined if nothing can be
   * given back.
   */
  readonly settle: ((status: number) => void) | undefined
}

/** How a middleware reads its framework's requests. */
export interface GuardSource<Request> extends FrameworkAddressSource<Request> {
  /** False if the runtime has no client addresses: all clients together would be one key. */
  hasAddress?(request: Request): boolean
}

/** The key for a socket that is closed already or has no address, such as a unix socket. */
const UNKNOWN_KEY = 'unknown'

export function createGuard<Request>(
  options: GuardOptions<Request>,
  source: GuardSource<Request>,
  own: OwnOptions = {},
): Guard<Request> {
  const settings = parseGuardOptions(options, own)
  const { limiter, skip, key, cost } = settings
  const ipOf = guardIp(options, OPTIONS_PATH, source)
  const fallbackKey = (request: Request) => {
    const ip = ipOf(request)
    if (ip === undefined && source.hasAddress?.(request) === false) throw withoutAddress()
    return ip ?? UNKNOWN_KEY
  }
  const mayRefund = settings.refundsFailed || settings.refundsSuccessful
  const charge = (
    request: Request,
    keys: Keys,
    units: number,
  ): MaybePromise<GuardOutcome | undefined> => {
    const call = { cost: units, context: request }
    const refund = mayRefund ? () => limiter.refund(keys, units, { context: request }) : undefined
    // Another copy of the library, or an object of the application, has `evaluate` only.
    const evaluation: MaybePromise<Evaluation<Decision>> =
      limiter instanceof StoreLimiter
        ? limiter.evaluateNow(keys, call)
        : limiter.evaluate(keys, call)
    if (!isPromise(evaluation)) return outcomeOf(evaluation, settings, refund)
    return Promise.resolve(evaluation).then((one) => outcomeOf(one, settings, refund))
  }
  const isByIp = key === undefined && !limiter.layered
  const evaluate = (request: Request) => {
    // Most guards. An address is never too long for a key.
    if (isByIp && typeof cost === 'number') return charge(request, fallbackKey(request), cost)
    const ip = () => fallbackKey(request)
    return after(key?.(request, ip), (found) =>
      after(shortened(keysOf(found, limiter, ip)), (keys) =>
        typeof cost === 'number'
          ? charge(request, keys, cost)
          : after(cost(request), (units) => charge(request, keys, units)),
      ),
    )
  }
  return {
    limiter,
    evaluate: (request) =>
      skip === undefined
        ? evaluate(request)
        : after(skip(request), (isSkipped) => (isSkipped ? undefined : evaluate(request))),
  }
}

/** Calls the function with the value, immediately unless that is a promise of any kind. */
function after<T, R>(value: MaybePromise<T>, next: (value: T) => MaybePromise<R>): MaybePromise<R> {
  return isPromise(value) ? Promise.resolve(value).then(next) : next(value)
}

function isPromise<T>(value: MaybePromise<T>): value is Promise<T> {
  return typeof value === 'object' && value !== null && 'then' in value
}

function keysOf<Request>(
  found: FoundKeys,
  limiter: GuardLimiter<Request>,
  fallback: () => string,
): Keys {
  if (!limiter.layered) return keyOf(found, 'key', fallback)
  const isRecord = typeof found === 'object' && found !== null
  const keys: Record<string, string> = {}
  // Names that the limiter does not have are passed on, so that it refuses them.
  for (const name of isRecord ? [...limiter.names, ...Object.keys(found)] : limiter.names) {
    keys[name] = keyOf(isRecord ? found[name] : found, `key.${name}`, fallback)
  }
  return keys
}

function keyOf(found: unknown, path: string, fallback: () => string): string {
  if (found === undefined || found === null || found === '') return fallback()
  if (typeof found === 'string') return found
  const allowed = `a string, or nothing for the client's IP`
  throw invalid('invalid-key', { path, value: found, allowed })
}

/** A client can send a key that is too long for the limiter, so that must not be an error. */
function shortened(keys: Keys): MaybePromise<Keys> {
  if (typeof keys === 'string') return isTooLong(keys) ? digestOfLong(keys) : keys
  return Object.values(keys).some(isTooLong) ? allShortened(keys) : keys
}

async function allShortened(keys: Readonly<Record<string, string>>): Promise<Keys> {
  const entries = Object.entries(keys).map(async ([name, key]) => [name, await digestOfLong(key)])
  return Object.fromEntries(await Promise.all(entries))
}

async function digestOfLong(key: string): Promise<string> {
  if (!isTooLong(key)) return key
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(key))
  const hex = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0'))
  return `sha256:${hex.join('')}`
}

function withoutAddress(): TidegateError {
  const message = `${OPTIONS_PATH}: this runtime has no client address; pass key or remoteAddress`
  return new TidegateError('wrong-use', message)
}

function outcomeOf(
  evaluation: Evaluation<Decision>,
  settings: GuardSettings<never>,
  refund: (() => Promise<unknown>) | undefined,
): GuardOutcome {
  const settle = refund && isCharged(evaluation.decision) ? settleBy(refund, settings) : undefined
  return new Outcome(evaluation, settings, settle)
}

/** A class, so that no closure is made per request. */
class Outcome implements GuardOutcome {
  readonly decision: GuardDecision
  readonly problem: Problem | undefined
  readonly settle: ((status: number) => void) | undefined
  readonly #evaluation: Evaluation<Decision>
  readonly #settings: GuardSettings<never>

  constructor(
    evaluation: Evaluation<Decision>,
    settings: GuardSettings<never>,
    settle: ((status: number) => void) | undefined,
  ) {
    const { decision } = evaluation
    this.decision = decision
    this.problem = decision.allowed ? undefined : problemOf(evaluation)
    this.settle = settle
    this.#evaluation = evaluation
    this.#settings = settings
  }

  writeHead(head: ResponseHead): void {
    const { headers, clock } = this.#settings
    writeHeaders(head, this.#evaluation, headers, clock.now())
  }
}

/** If the store did not answer, nothing was charged that could be given back. */
function isCharged({ allowed, degraded }: Decision): boolean {
  return allowed && (degraded === null || degraded.reason === 'unconfirmed')
}

function settleBy(
  refund: () => Promise<unknown>,
  { refundsFailed, refundsSuccessful }: GuardSettings<never>,
) {
  return (status: number) => {
    // The response is sent. If the refund fails, the client has fewer units for a while.
    if (status >= 400 ? refundsFailed : refundsSuccessful) refund().catch(() => undefined)
  }
}
