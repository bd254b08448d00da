/**
 * Bounds the lines that clients can cause in the log of the gateway: refusals, connections that are
 * closed at once, and internal errors. Lines beyond the bound are counted, and one line per second
 * reports their number.
 */

import { hash } from 'node:crypto'
import type { Logger } from 'pino'

export interface LineBudgetOptions {
  readonly linesPerSecondMax: number
  readonly nodeId: string
}

/** The reason why a connection is closed before it carries a request. */
export type RefusedConnection = 'connectionsMax' | 'connectionsPerIpMax'

/** 64 bits: enough to tell callers apart, and not more. */
const DIGEST_LENGTH = 16

export class LineBudget {
  readonly #logger: Logger
  #options: LineBudgetOptions = { linesPerSecondMax: 0, nodeId: '' }
  #written = 0
  #leftOut = 0
  #timer: NodeJS.Timeout | undefined

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** Replaces the bound; lines of the current second still count. */
  use(options: LineBudgetOptions): void {
    this.#options = options
  }

  /** Returns whether another line may be written in this second. */
  mayWrite(): boolean {
    this.#timer ??= setTimeout(this.#startAnew, 1_000).unref()
    const mayWrite = this.#written < this.#options.linesPerSecondMax
    if (mayWrite) this.#written += 1
    else this.#leftOut += 1
    return mayWrite
  }

  /** Logs an error that no stage should have thrown. */
  readonly error = (error: unknown): void => {
    if (this.mayWrite()) this.#logger.error({ event: 'gateway.error', err: error })
  }

  /** Logs a connection that is closed before it carries a request. */
  readonly refusedConnection = (reason: RefusedConnection, client: string): void => {
    if (!this.#logger.isLevelEnabled('warn') || !this.mayWrite()) return
    const { nodeId } = this.#options
    const line = { event: 'connection.refused', client_id: digest(client), reason, node_id: nodeId }
    this.#logger.warn(line)
  }

  readonly #startAnew = () => {
    const { nodeId } = this.#options
    const count = this.#leftOut
    if (count > 0) this.#logger.warn({ event: 'log.left_out', count, node_id: nodeId })
    this.#timer = undefined
    this.#written = 0
    this.#leftOut = 0
  }
}

/** Identifies a caller without naming it. */
export function digest(text: string): string {
  return `sha256:${hash('sha256', text, 'hex').slice(0, DIGEST_LENGTH)}`
}
