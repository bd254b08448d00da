/**
 * The health of a target. Consecutive failures eject it for a time, and failed health checks remove
 * it until they succeed again. Each change is reported once to the log, because retries hide it.
 */

import type { TargetChange } from '../../observability/traffic-events.ts'
import type { UpstreamSection } from '../../policy/schema/upstreams-section.ts'

/**
 * A change of a target, for operators. `reason` is a status or the code of an error. `failing` is
 * the first of consecutive requests without a response, `recovered` a response without an error
 * after `failing` or `ejected`.
 */
export type TargetEvent = TargetChange

export type TargetObserver = (event: TargetEvent) => void

export interface TargetStatus {
  readonly state: 'healthy' | 'ejected' | 'unhealthy'
  readonly ejectedUntil?: string
  readonly failuresInRow: number
  readonly lastFailure?: { readonly reason: string; readonly at: string }
}

/** A target that fails intermittently is reported once in this time. */
const FAILING_INTERVAL_MS = 10_000

export class TargetHealth {
  readonly #ejection: UpstreamSection['ejection']
  readonly #observer: TargetObserver
  #isHealthy = true
  #failures = 0
  #failuresAtEjection = 0
  #ejectedUntilMs = 0
  #lastFailure: { readonly reason: string; readonly atMs: number } | undefined
  /** When a failure was reported that has not recovered yet. */
  #downSinceMs: number | undefined
  #reportedAtMs = Number.NEGATIVE_INFINITY

  constructor(ejection: UpstreamSection['ejection'], observer: TargetObserver) {
    this.#ejection = ejection
    this.#observer = observer
  }

  /** False while health checks fail. */
  get isHealthy(): boolean {
    return this.#isHealthy
  }

  isEjected(nowMs?: number): boolean {
    // Most targets never were, and to read the clock takes longer than all other checks.
    if (this.#ejectedUntilMs === 0) return false
    return (nowMs ?? performance.now()) < this.#ejectedUntilMs
  }

  /** To be called for every response of a request. */
  onResponse(status: number): void {
    if (status >= 500) this.#fail(`status ${status}`, true)
    else if (this.#failures > 0 || this.#downSinceMs !== undefined) this.#succeed()
  }

  /** To be called for every request without a response, unless its client is the cause. */
  onFailure(reason: string): void {
    this.#fail(reason, false)
  }

  /** The result of health checks, once it is certain; `problem` is undefined if they succeed. */
  onChecked(problem: string | undefined): void {
    const isHealthy = problem === undefined
    if (isHealthy === this.#isHealthy) return
    this.#isHealthy = isHealthy
    this.#observer(isHealthy ? { type: 'healthy' } : { type: 'unhealthy', reason: problem })
  }

  status(): TargetStatus {
    const leftMs = this.#ejectedUntilMs - performance.now()
    const last = this.#lastFailure
    return {
      state: this.#isHealthy ? (leftMs > 0 ? 'ejected' : 'healthy') : 'unhealthy',
      ...(leftMs > 0 && { ejectedUntil: new Date(Date.now() + leftMs).toISOString() }),
      failuresInRow: this.#failures,
      ...(last && { lastFailure: { reason: last.reason, at: new Date(last.atMs).toISOString() } }),
    }
  }

  #fail(reason: string, isAnswered: boolean): void {
    const nowMs = performance.now()
    const { after, for: forMs } = this.#ejection
    this.#failures += 1
    this.#lastFailure = { reason, atMs: Date.now() }
    const isEjected = this.#failures - this.#failuresAtEjection >= after
    if (!isEjected) {
      // The client gets the response with the error, so it is not reported.
      if (!isAnswered && this.#failures === 1) this.#reportFailing(reason, nowMs)
      return
    }
    const wasEjected = this.isEjected(nowMs)
    this.#failuresAtEjection = this.#failures
    this.#ejectedUntilMs = nowMs + forMs
    if (wasEjected) return
    this.#downSinceMs ??= nowMs
    this.#observer({ type: 'ejected', reason, failures: this.#failures, forMs })
  }

  #reportFailing(reason: string, nowMs: number): void {
    if (nowMs - this.#reportedAtMs < FAILING_INTERVAL_MS) return
    this.#reportedAtMs = nowMs
    this.#downSinceMs ??= nowMs
    this.#observer({ type: 'failing', reason })
  }

  #succeed(): void {
    this.#failures = 0
    this.#failuresAtEjection = 0
    const nowMs = performance.now()
    // A response to a request from before the ejection does not end it.
    if (this.#downSinceMs === undefined || this.isEjected(nowMs)) return
    const downMs = nowMs - this.#downSinceMs
    this.#downSinceMs = undefined
    this.#observer({ type: 'recovered', downMs })
  }
}
