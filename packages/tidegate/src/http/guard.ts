/**
 * The guard: the HTTP side of a limiter. It finds the key and the cost of a request, asks the
 * limiter, and says what the response must carry. It knows no framework: a middleware gives it the
 * framework's request and a way to set header fields, and sends the answer itself.
 *
 * A request without a key of its own is counted by its IP, never in one bucket with all others.
 */

import { createHash } from 'node:crypto'
import type { Decision, LayeredDecision } from '../decision.ts'
import { invalid, TidegateError } from '../errors.ts'
import { KEY_BYTES_MAX } from '../keys.ts'
import type { Evaluation } from '../limiter.ts'
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
  /** Judges and charges; undefined for a request that is skipped. */
  judge(request: Request): Promise<Verdict | undefined>
}

/** Layered where the guard's limiter is. */
export type GuardDecision = Decision | LayeredDecision

export interface Verdict {
  readonly decision: GuardDecision
  /** What to answer instead of going on. */
  readonly problem: Problem | undefined
  /** Sets the header fields: of the rate limit and, for a denial, of when to come back. */
  writeHead(head: ResponseHead): void
  /**
   * To be called with the status once the response was sent, and not if it was aborted: else one
   * could have the work for nothing by hanging up. Undefined where nothing can be given back.
   */
  readonly settle: ((status: number) => void) | undefined
}

/** What a middleware knows of its framework's requests. */
export interface GuardSource<Request> extends FrameworkAddressSource<Request> {
  /** False where the runtime tells no addresses: all clients together would be one key. */
  tellsAddress?(request: Request): boolean
}

/** Of a socket that is closed already or has no address, such as a unix socket. */
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
    if (ip === undefined && source.tellsAddress?.(request) === false) throw withoutAddress()
    return ip ?? UNKNOWN_KEY
  }
  return {
    limiter,
    async judge(request) {
      if (skip !== undefined && (await skip(request))) return undefined
      const ip = () => fallbackKey(request)
      const found = key === undefined ? undefined : await key(request, ip)
      const keys = keysOf(found, limiter, ip)
      const units = typeof cost === 'number' ? cost : await cost(request)
      const evaluation = await limiter.evaluate(keys, { cost: units, context: request })
      return verdictOf(evaluation, settings, () =>
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
  // Names that are none of the limiter's go along, for it to refuse.
  for (const name of isRecord ? [...limiter.names, ...Object.keys(found)] : limiter.names) {
    keys[name] = keyOf(isRecord ? found[name] : found, `key.${name}`, fallback)
  }
  return keys
}

function keyOf(found: unknown, path: string, fallback: () => string): string {
  if (found === undefined || found === null || found === '') return fallback()
  if (typeof found === 'string') return shortened(found)
  const allowed = `a string, or nothing for the client's IP`
  throw invalid('invalid-key', { path, value: found, allowed })
}

/** What is too long for a limiter is a client's doing, and no reason for an error. */
function shortened(key: string): string {
  if (Buffer.byteLength(key) <= KEY_BYTES_MAX) return key
  return `sha256:${createHash('sha256').update(key).digest('hex')}`
}

function withoutAddress(): TidegateError {
  const message = `${OPTIONS_PATH}: this runtime tells no client address; pass key or remoteAddress`
  return new TidegateError('wrong-use', message)
}

function verdictOf(
  evaluation: Evaluation<Decision>,
  { headers, clock, refundsFailed, refundsSuccessful }: GuardSettings<never>,
  refund: () => Promise<unknown>,
): Verdict {
  const { decision } = evaluation
  // Where the store did not answer, nothing was charged that could be given back to it.
  const isKnown = decision.degraded === null || decision.degraded.reason === 'unconfirmed'
  const isCharged = decision.allowed && isKnown
  const settle = (status: number) => {
    // The response is sent. If giving back fails, the client has a little less for a while.
    if (status >= 400 ? refundsFailed : refundsSuccessful) refund().catch(() => undefined)
  }
  return {
    decision,
    problem: decision.allowed ? undefined : problemOf(evaluation),
    writeHead: (head) => writeHeaders(head, evaluation, headers, clock.now()),
    settle: isCharged && (refundsFailed || refundsSuccessful) ? settle : undefined,
  }
}
