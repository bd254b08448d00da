/**
 * One timer for everything that waits for clients: heads, bodies, and responses that are not taken.
 * What waits for an upstream is not looked at.
 */

import type { GatewaySection } from '../../policy/gateway-section.ts'

/** Called at every interval until it is forgotten. */
export type Look = (nowMs: number) => void

/** Timeouts are kept to within an eighth. */
const LOOKS_PER_TIMEOUT = 8

/** A look at 10,000 connections takes about 2 ms, so this already costs a fifth of a core. */
const LOOK_INTERVAL_MS_MIN = 10

/** Long timeouts are kept to within a second. */
const LOOK_INTERVAL_MS_MAX = 1_000

type ClientTimeouts = Pick<GatewaySection['timeouts'], 'headers' | 'request' | 'keepAlive' | 'send'>

export class SlowClients {
  readonly #looks = new Set<Look>()
  readonly #intervalMs: number
  #timer: NodeJS.Timeout | undefined

  constructor(timeouts: ClientTimeouts) {
    this.#intervalMs = lookIntervalMs(timeouts)
  }

  watch(look: Look): void {
    this.#looks.add(look)
    this.#timer ??= setInterval(() => this.#lookAtAll(), this.#intervalMs).unref()
  }

  forget(look: Look): void {
    this.#looks.delete(look)
  }

  #lookAtAll(): void {
    if (this.#looks.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
      return
    }
    const nowMs = performance.now()
    for (const look of this.#looks) look(nowMs)
  }
}

function lookIntervalMs({ headers, request, keepAlive, send }: ClientTimeouts): number {
  const ms = Math.min(headers, request, keepAlive, send) / LOOKS_PER_TIMEOUT
  return Math.min(Math.max(ms, LOOK_INTERVAL_MS_MIN), LOOK_INTERVAL_MS_MAX)
}
