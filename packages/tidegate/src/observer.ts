/**
 * The port for events of the library, for logs and metrics. It is called in the middle of a
 * decision, so an observer should be quick. Errors that it throws are ignored.
 */

import type { Degraded } from './decision.ts'
import type { ErrorCode, TidegateError } from './errors.ts'

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

/**
 * The port for metrics of a store. Commands are as frequent as decisions, so it gets plain
 * arguments instead of an object. A store without a meter pays nothing for it.
 */
export interface Meter {
  readonly observer: Observer
  /**
   * Called when a command to a server has ended. `shard` is empty if the store has only one,
   * `charges` is 0 for a command without a charge, and `error` is undefined for a reply in time.
   * `sent` are the charges of the command that `queued` was called with.
   */
  command(
    shard: string,
    charges: number,
    tookMs: number,
    error: ErrorCode | undefined,
    sent?: readonly object[],
  ): void
  /**
   * Called for each charge that waits to be sent, before the call that asks for it returns. The
   * object stands for the charge and has no other use. A meter without it pays nothing.
   */
  queued?(charge: object): void
}

/** Returns an observer that calls both. */
export function bothObservers(
  one: Observer | undefined,
  other: Observer | undefined,
): Observer | undefined {
  if (one === undefined || other === undefined) return one ?? other
  const [first, second] = [safely(one), safely(other)]
  return (event) => {
    first(event)
    second(event)
  }
}

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
