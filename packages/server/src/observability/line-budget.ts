/**
 * Bounds the lines that clients can cause in the log of the gateway: refusals, connections that are
 * closed immediately, failures of upstreams, and internal errors. Lines beyond the bound are
 * counted, and one line per second reports their number.
 */

import { hash } from 'node:crypto'
import type { Logger } from 'pino'

export interface LineBudgetOptions {
  readonly linesPerSecondMax: number
  readonly nodeId: string
}

/** The reason why a connection is closed before it carries a request. */
export type RefusedConnection = 'connectionsMax' | 'connectionsPerIpMax' | 'heldOff'

/** A change of a target of an upstream. Fields in milliseconds end in `Ms`. */
export type TargetChange = { readonly type: string } & Readonly<Record<string, string | number>>

/** 64 bits: enough to tell clients apart, and not more. */
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
    this.#timer ??= setTimeout(this.#startAgain, 1_000).unref()
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

  /** Logs a change of a target of an upstream. */
  readonly target = (upstream: string, target: string, event: TargetChange): void => {
    if (!this.#logger.isLevelEnabled('warn') || !this.mayWrite()) return
    const { nodeId } = this.#options
    const { type, ...others } = event
    const line = { event: `upstream.${type}`, upstream, target, ...inLogNames(others) }
    this.#logger.warn({ ...line, node_id: nodeId })
  }

  readonly #startAgain = () => {
    const { nodeId } = this.#options
    const count = this.#leftOut
    if (count > 0) this.#logger.warn({ event: 'log.left_out', count, node_id: nodeId })
    this.#timer = undefined
    this.#written = 0
    this.#leftOut = 0
  }
}

/** Names as in other lines, and times as whole milliseconds. */
function inLogNames(fields: Readonly<Record<string, string | number>>): object {
  const { forMs, downMs, ...others } = fields
  return {
    ...others,
    ...(forMs !== undefined && { for_ms: forMs }),
    ...(typeof downMs === 'number' && { down_ms: Math.round(downMs) }),
  }
}

/** Identifies a client without naming it. */
export function digest(text: string): string {
  return `sha256:${hash('sha256', text, 'hex').slice(0, DIGEST_LENGTH)}`
}
