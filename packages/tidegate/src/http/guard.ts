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
import { type FrameworkAddressSource, guardIp } from './guard-ip.ts'
import {
  type FoundKeys,
  type GuardLimiter,
  type GuardOptions,
  type GuardSettings,
  type Keys,
  OPTIONS_PATH,
  type OwnOptions,
  parseGuardOptions,
} from './guard-options.ts'
import { type ResponseHead, writeHeaders } from './headers.ts'
import { type Problem, problemOf } from './problem.ts'

export interface Guard<Request> {
  readonly limiter: GuardLimiter<Request>
  /** Decides about a request and charges it; undefined if it is skipped. */
  evaluate(request: Request): Promise<GuardOutcome | undefined>
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
  return {
    limiter,
    async evaluate(request) {
      if (skip !== undefined && (await skip(request))) return undefined
      const ip = () => fallbackKey(request)
      const found = key === undefined ? undefined : await key(request, ip)
      const whole = keysOf(found, limiter, ip)
      const keys = isLong(whole) ? await shortened(whole) : whole
      const units = typeof cost === 'number' ? cost : await cost(request)
      const evaluation = await limiter.evaluate(keys, { cost: units, context: request })
      return outcomeOf(evaluation, settings, () =>
        limiter.refund(keys, units, { context: request }),
      )
    },
  }
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

function isLong(keys: Keys): boolean {
  return typeof keys === 'string' ? isTooLong(keys) : Object.values(keys).some(isTooLong)
}

/** A client can send a key that is too long for the limiter, so that must not be an error. */
async function shortened(keys: Keys): Promise<Keys> {
  if (typeof keys === 'string') return digestOfLong(keys)
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
  { headers, clock, refundsFailed, refundsSuccessful }: GuardSettings<never>,
  refund: () => Promise<unknown>,
): GuardOutcome {
  const { decision } = evaluation
  // If the store did not answer, nothing was charged that could be given back.
  const isKnown = decision.degraded === null || decision.degraded.reason === 'unconfirmed'
  const isCharged = decision.allowed && isKnown
  const settle = (status: number) => {
    // The response is sent. If the refund fails, the client has fewer units for a while.
    if (status >= 400 ? refundsFailed : refundsSuccessful) refund().catch(() => undefined)
  }
  return {
    decision,
    problem: decision.allowed ? undefined : problemOf(evaluation),
    writeHead: (head) => writeHeaders(head, evaluation, headers, clock.now()),
    settle: isCharged && (refundsFailed || refundsSuccessful) ? settle : undefined,
  }
}
