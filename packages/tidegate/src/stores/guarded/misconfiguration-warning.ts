/**
 * Emits a process warning if a store refuses because of its set-up: once a minute for each message,
 * so that the log is neither silent nor flooded.
 */

import { steadyClock } from '../../clock.ts'
import type { TidegateError } from '../../errors.ts'
import { emitWarning } from '../../runtime.ts'

const INTERVAL_MS = 60_000

/** Messages per minute. They come from the server, with little variety. */
const MESSAGES_MAX = 100

export function misconfigurationWarning(): (error: TidegateError) => void {
  const warnedMs = new Map<string, number>()
  return ({ code, message }) => {
    const nowMs = steadyClock.now()
    for (const [warned, atMs] of warnedMs) {
      if (nowMs - atMs < INTERVAL_MS) break
      warnedMs.delete(warned)
    }
    if (warnedMs.has(message) || warnedMs.size >= MESSAGES_MAX) return
    warnedMs.set(message, nowMs)
    emitWarning(message, code)
  }
}
