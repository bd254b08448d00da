/**
 * The one timer for everything that waits for clients: heads, bodies, and responses that are not
 * read. Timeouts of upstreams are checked elsewhere.
 */

import type { GatewaySection } from '../../policy/schema/listener-section.ts'

/** Called at every interval until it is forgotten. */
export type CheckTimeouts = (nowMs: number) => void

/** Timeouts are accurate to an eighth. */
const CHECKS_PER_TIMEOUT = 8

/** A check of 10,000 connections takes about 2 ms, so this already costs a fifth of a core. */
const CHECK_INTERVAL_MS_MIN = 10

/** Long timeouts are accurate to a second. */
const CHECK_INTERVAL_MS_MAX = 1_000

type ClientTimeouts = Pick<GatewaySection['timeouts'], 'headers' | 'request' | 'keepAlive' | 'send'>

export class SlowClients {
  readonly #checks = new Set<CheckTimeouts>()
  readonly #intervalMs: number
  #timer: NodeJS.Timeout | undefined

  constructor(timeouts: ClientTimeouts) {
    this.#intervalMs = checkIntervalMs(timeouts)
  }

  watch(check: CheckTimeouts): void {
    this.#checks.add(check)
    this.#timer ??= setInterval(() => this.#checkAll(), this.#intervalMs).unref()
  }

  forget(check: CheckTimeouts): void {
    this.#checks.delete(check)
  }

  #checkAll(): void {
    if (this.#checks.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
      return
    }
    const nowMs = performance.now()
    for (const check of this.#checks) check(nowMs)
  }
}

function checkIntervalMs({ headers, request, keepAlive, send }: ClientTimeouts): number {
  const ms = Math.min(headers, request, keepAlive, send) / CHECKS_PER_TIMEOUT
  return Math.min(Math.max(ms, CHECK_INTERVAL_MS_MIN), CHECK_INTERVAL_MS_MAX)
}
