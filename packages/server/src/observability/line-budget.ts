/**
 * Bounds the lines that clients can cause in the log, over all doors of a process: refusals,
 * connections that are closed immediately, failures of upstreams, and internal errors. Lines beyond
 * the bound are counted, and one line per second reports their number.
 */

import type { Emit } from './events.ts'
import { isLogged, type LeastLevel, type LogLevel } from './log-level.ts'
import type { TrafficEvent } from './traffic-events.ts'

export interface LineBudgetOptions {
  readonly level: LeastLevel
  readonly linesPerSecondMax: number
  readonly nodeId: string
}

export class LineBudget {
  readonly #emit: Emit
  #options: LineBudgetOptions = { level: 'silent', linesPerSecondMax: 0, nodeId: '' }
  #written = 0
  #leftOut = 0
  #leftOutTotal = 0
  #timer: NodeJS.Timeout | undefined

  constructor(emit: Emit) {
    this.#emit = emit
  }

  /** Lines beyond the bound since the start. */
  get leftOut(): number {
    return this.#leftOutTotal
  }

  get nodeId(): string {
    return this.#options.nodeId
  }

  /** Replaces the bound; lines of the current second still count. */
  use(options: LineBudgetOptions): void {
    this.#options = options
  }

  /** Returns whether lines of this level are written at all. */
  isLogged(level: LogLevel): boolean {
    return isLogged(level, this.#options.level)
  }

  /** Returns whether another line may be written in this second. */
  mayWrite(level: LogLevel): boolean {
    if (!this.isLogged(level)) return false
    this.#timer ??= setTimeout(this.#startAgain, 1_000).unref()
    const mayWrite = this.#written < this.#options.linesPerSecondMax
    if (mayWrite) this.#written += 1
    else {
      this.#leftOut += 1
      this.#leftOutTotal += 1
    }
    return mayWrite
  }

  /** Emits an event whose line has this level, if another line may be written. */
  emit(level: LogLevel, event: TrafficEvent): void {
    if (this.mayWrite(level)) this.#emit(event)
  }

  /** Emits an event that `mayWrite` has counted, or that has a bound of its own. */
  emitCounted(event: TrafficEvent): void {
    this.#emit(event)
  }

  readonly #startAgain = () => {
    const { nodeId } = this.#options
    const count = this.#leftOut
    this.#timer = undefined
    this.#written = 0
    this.#leftOut = 0
    if (count > 0) this.#emit({ type: 'lines-left-out', count, nodeId })
  }
}
