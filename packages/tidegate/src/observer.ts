/**
 * The port through which the library tells what happens to it, for logs and metrics. It is called
 * in the middle of a decision, so an observer should be quick; what it throws is ignored.
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
  /** A circuit breaker has changed. `openMs` is how long it stays open at most, where it does. */
  | {
      readonly type: 'breaker'
      /** Which part of the store; empty where it has only one. */
      readonly shard: string
      readonly from: BreakerState
      readonly to: BreakerState
      readonly openMs?: number
    }
  /** A store answers again, after so long without. */
  | { readonly type: 'recovered'; readonly shard: string; readonly outageMs: number }
  /** A store refuses for a reason that somebody has to mend: permissions, types, scripts, slots. */
  | { readonly type: 'misused'; readonly error: TidegateError }
  /** How many processes share the store, where that has changed. */
  | { readonly type: 'nodes'; readonly count: number }
  /** A key is asked for very often, so many times per second; told once a second. */
  | {
      readonly type: 'hot'
      readonly limit: string
      readonly key: string
      readonly perSecond: number
    }
  /** Limiting was turned on or off. */
  | { readonly type: 'enabled'; readonly enabled: boolean }

export type Observer = (event: LimiterEvent) => void

/** The observer as the library calls it: it cannot make a decision fail. */
export function safely(observer: Observer | undefined): Observer {
  if (observer === undefined) return () => undefined
  return (event) => {
    try {
      const told: unknown = observer(event)
      // An asynchronous function is accepted as well, and may fail later.
      if (told instanceof Promise) told.catch(() => undefined)
    } catch {
      // The port says so: a broken log is no reason to refuse a request.
    }
  }
}
