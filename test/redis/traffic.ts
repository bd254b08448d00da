/** Continuous requests to a store during a fault of its servers, and their outcomes. */

import { setTimeout as sleep } from 'node:timers/promises'
import { type ErrorCode, TidegateError } from '../../packages/tidegate/src/errors.ts'
import type { Counter, Store } from '../../packages/tidegate/src/stores/store.ts'
import { until } from '../support/servers/until.ts'

/** Times on the axis of `performance.now()`. */
export interface Answer {
  readonly beganMs: number
  readonly answeredMs: number
}

export interface Failure {
  readonly beganMs: number
  readonly code: ErrorCode | undefined
  readonly message: string
}

/** The pause between two requests of a caller: short enough that a fault hits some requests. */
const PAUSE_MS = 2

/** Callers of each traffic. */
const CALLERS = 4

export class Traffic {
  readonly #store: Store
  readonly #groups: ReadonlyArray<readonly Counter[]>
  readonly #admitted: number[]
  readonly #callers: Promise<void>[]
  readonly failures: Failure[] = []
  readonly answers: Answer[] = []
  /** The longest duration of a request, answered or not. */
  slowestMs = 0
  #pending = 0
  #isRunning = true

  /** Callers charge the groups in turn, with a cost of 1 to each counter. */
  constructor(store: Store, groups: ReadonlyArray<readonly Counter[]>) {
    this.#store = store
    this.#groups = groups
    this.#admitted = groups.map(() => 0)
    this.#callers = Array.from({ length: CALLERS }, (_, caller) => this.#call(caller))
  }

  /** Admitted requests of all groups. */
  get admittedCount(): number {
    return this.#admitted.reduce((sum, count) => sum + count, 0)
  }

  admittedOf(group: number): number {
    return this.#admitted[group] ?? 0
  }

  /**
   * Waits until a request that began after this time is answered, and resolves to the time of its
   * answer. The answer to an earlier one may still come from a server that is gone.
   */
  untilAnsweredAfter(timeMs: number): Promise<number> {
    return until(
      'requests are answered',
      () => this.answers.find(({ beganMs }) => beganMs > timeMs)?.answeredMs,
    )
  }

  /** Ends the traffic. Rejects if a request is neither answered nor failed then. */
  async stop(): Promise<void> {
    this.#isRunning = false
    await until('no request is pending', () => this.#pending === 0)
    await Promise.all(this.#callers)
  }

  async #call(caller: number): Promise<void> {
    for (let at = caller; this.#isRunning; at += 1) {
      await this.#ask(at % this.#groups.length)
      await sleep(PAUSE_MS)
    }
  }

  async #ask(at: number): Promise<void> {
    const group = (this.#groups[at] ?? []).map((counter) => ({ ...counter, cost: 1 }))
    const beganMs = performance.now()
    this.#pending += 1
    try {
      const decisions = await this.#store.charge(group, 'all')
      this.answers.push({ beganMs, answeredMs: performance.now() })
      if (decisions.every(({ allowed }) => allowed)) this.#admitted[at] = this.admittedOf(at) + 1
    } catch (error) {
      const code = error instanceof TidegateError ? error.code : undefined
      this.failures.push({ beganMs, code, message: String(error) })
    }
    this.#pending -= 1
    this.slowestMs = Math.max(this.slowestMs, performance.now() - beganMs)
  }
}

/** Each kind of failure once, for messages of tests. */
export function kindsOf(failures: readonly Failure[]): string[] {
  return [...new Set(failures.map(({ code, message }) => `${code}: ${message}`))]
}

/** The remaining units of each counter. */
export async function remaining(store: Store, counters: readonly Counter[]): Promise<number[]> {
  const group = counters.map((counter) => ({ ...counter, cost: 0 }))
  return (await store.charge(group, 'peek')).map(({ remaining }) => remaining)
}
