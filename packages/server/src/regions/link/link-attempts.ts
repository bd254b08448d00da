/**
 * Attempts to connect to another region, side by side. While the link is down, one begins several
 * times a second, and the first that the region answers wins. An attempt that began during a cut
 * waits until the kernel repeats its packets, which takes a second and more.
 *
 * The oldest attempt has all of its time, so that a slow machine connects too: a new attempt beyond
 * the maximum replaces the second oldest. The pace does not depend on how attempts end, so that a
 * region that refuses connections is not asked more often than one that is silent.
 */

import type { ClientHttp2Session } from 'node:http2'

export interface LinkAttemptsOptions {
  /** Time for TCP and TLS. */
  readonly connectMs: number
  /** Begins to connect. */
  open(): ClientHttp2Session
  /**
   * Resolves when the region has answered a message, with the reason if the link is not up all the
   * same. A connection alone proves nothing: a proxy may have accepted it.
   */
  greet(session: ClientHttp2Session): Promise<string | undefined>
  /** Called once, with the connection that is used from now on. */
  onAnswered(session: ClientHttp2Session, problem: string | undefined): void
  /** Called for attempts that fail by themselves. */
  onFailed(problem: string): void
}

/** Four of them a second, while three can be younger than the oldest. */
const ATTEMPTS_MAX = 4

/** Regions share limits within a second after a cut: connecting takes three round trips. */
const PACE_MS = 250

/** An outage of this length rarely ends in the next second, and its end may be noticed later. */
const CALM_AFTER_MS = 5 * 60_000
const CALM_PACE_MS = 500

/** Part of the pace that is random, so that the processes of a region do not connect together. */
const JITTER = 0.4

/** Attempts that are asked for are not closer to one another than this. */
const HURRY_MS_MIN = 100

export class LinkAttempts {
  readonly #options: LinkAttemptsOptions
  /** The oldest first. */
  readonly #sessions: ClientHttp2Session[] = []
  #timer: NodeJS.Timeout | undefined
  #startedMs = 0
  #openedMs = -Infinity

  constructor(options: LinkAttemptsOptions) {
    this.#options = options
  }

  /** Begins attempts, the first of them after the delay, until one is answered or `stop`. */
  start(delayMs = 0): void {
    if (this.#timer !== undefined) return
    this.#startedMs = performance.now()
    if (delayMs === 0) this.#next()
    else this.#schedule(delayMs)
  }

  /** Begins the next attempt now, because the region may be reached again. */
  hurry(): void {
    if (this.#timer === undefined || performance.now() - this.#openedMs < HURRY_MS_MIN) return
    this.#next()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    for (const session of this.#sessions.splice(0)) session.destroy()
  }

  #schedule(delayMs: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#next(), delayMs).unref()
  }

  #next(): void {
    if (this.#sessions.length >= ATTEMPTS_MAX) this.#sessions.splice(1, 1)[0]?.destroy()
    this.#openedMs = performance.now()
    const isLong = this.#openedMs - this.#startedMs > CALM_AFTER_MS
    const paceMs = isLong ? CALM_PACE_MS : PACE_MS
    this.#schedule(paceMs * (1 + JITTER * (Math.random() - 0.5)))
    this.#open()
  }

  #open(): void {
    const session = this.#options.open()
    this.#sessions.push(session)
    let problem: string | undefined
    session.on('error', (error: NodeJS.ErrnoException) => {
      problem = error.code ?? 'the connection failed'
    })
    const timer = setTimeout(() => {
      problem = 'it does not accept connections'
      session.destroy()
    }, this.#options.connectMs).unref()
    session.once('connect', () => {
      clearTimeout(timer)
      this.#options.greet(session).then(
        (reason) => this.#win(session, reason),
        (error: Error) => {
          problem ??= error.message
          session.destroy()
        },
      )
    })
    session.once('close', () => {
      clearTimeout(timer)
      if (this.#remove(session)) this.#options.onFailed(problem ?? 'the connection was closed')
    })
    session.unref()
  }

  #win(session: ClientHttp2Session, problem: string | undefined): void {
    if (!this.#remove(session)) return
    this.stop()
    this.#options.onAnswered(session, problem)
  }

  /** Returns whether the attempt was still one. */
  #remove(session: ClientHttp2Session): boolean {
    const at = this.#sessions.indexOf(session)
    if (at >= 0) this.#sessions.splice(at, 1)
    return at >= 0
  }
}
