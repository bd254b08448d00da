/**
 * Says aloud, as a warning of the process, that a store refuses for a reason that somebody has to
 * mend: once a minute for each message, so that a log is neither silent nor flooded.
 */

import { steadyClock } from '../../clock.ts'
import type { TidegateError } from '../../errors.ts'

const INTERVAL_MS = 60_000

/** Messages of a minute. They come from the server, with little variety. */
const MESSAGES_MAX = 100

export function misuseWarning(): (error: TidegateError) => void {
  const toldMs = new Map<string, number>()
  return ({ code, message }) => {
    const nowMs = steadyClock.now()
    for (const [told, atMs] of toldMs) {
      if (nowMs - atMs < INTERVAL_MS) break
      toldMs.delete(told)
    }
    if (toldMs.has(message) || toldMs.size >= MESSAGES_MAX) return
    toldMs.set(message, nowMs)
    process.emitWarning(message, { type: 'TidegateWarning', code })
  }
}
