/**
 * The port for events of the library, for logs and metrics. It is called in the middle of a
 * decision, so an observer should be quick. Errors that it throws are ignored.
 */

import type { Degraded } from './decision.ts'
import type { TidegateError } from './errors.ts'

export type BreakerState = 'closed' | 'open' | 'half-open'

export type LimiterEvent =
  /** A decision was made without the store. */
  | {
      readonly type: 'degraded'
      readonly reason: Degraded['reason']
      readonly mode: Degraded['mode']
      readonly allowed: boolean
      /** The names of the limits. */
      readonly limits: readonly string[]
    }
  /** A circuit breaker has changed. If it is open, it stays so for at most `openMs`. */
  | {
      readonly type: 'breaker'
      /** The shard of the store; empty if it has only one. */
      readonly shard: string
      readonly from: BreakerState
      readonly to: BreakerState
      readonly openMs?: number
    }
  /** A store answers again after an outage. */
  | { readonly type: 'recovered'; readonly shard: string; readonly outageMs: number }
  /** A store refuses until its set-up changes: permissions, types, scripts, slots. */
  | { readonly type: 'misconfigured'; readonly error: TidegateError }
  /** The number of processes that share the store has changed. */
  | { readonly type: 'nodes'; readonly count: number }
  /** A key has very many calls per second. Reported once a second. */
  | {
      readonly type: 'hot'
      readonly limit: string
      readonly key: string
      readonly perSecond: number
    }
  /** Limiting was turned on or off. */
  | { readonly type: 'enabled'; readonly enabled: boolean }

export type Observer = (event: LimiterEvent) => void

/** Wraps an observer so that it cannot make a decision fail. */
export function safely(observer: Observer | undefined): Observer {
  if (observer === undefined) return () => undefined
  return (event) => {
    try {
      const result: unknown = observer(event)
      // An asynchronous function is accepted as well, and may fail later.
      if (result instanceof Promise) result.catch(() => undefined)
    } catch {
      // A broken log must not refuse a request.
    }
  }
}
