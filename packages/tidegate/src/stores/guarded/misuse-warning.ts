/**
 * Says aloud, as a warning of the process, that a store refuses for a reason that somebody has to
 * mend: once a minute for each message, so that a log is neither silent nor flooded.
 */

import { steadyClock } from '../../clock.ts'
import type { TidegateError } from '../../errors.ts'

const INTERVAL_MS = 60_000

/** Messages that are told apart; they come from the server, with little variety. */
const MESSAGES_MAX = 100

export function misuseWarning(): (error: TidegateError) => void {
  const toldMs = new Map<string, number>()
  return ({ code, message }) => {
    const nowMs = steadyClock.now()
    const lastMs = toldMs.get(message)
    if (lastMs !== undefined && nowMs - lastMs < INTERVAL_MS) return
    if (toldMs.size >= MESSAGES_MAX) toldMs.clear()
    toldMs.set(message, nowMs)
    process.emitWarning(message, { type: 'TidegateWarning', code })
  }
}
