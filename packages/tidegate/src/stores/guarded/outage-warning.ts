/**
 * Emits a process warning while decisions are made without the store, so that an outage is never
 * silent: the first time, and then at most once a minute while it lasts.
 */

import { steadyClock } from '../../clock.ts'
import type { Degraded } from '../../decision.ts'
import { emitWarning } from '../../runtime.ts'
import { DEADLINE_MS_MAX } from '../call-bounds.ts'
import type { StoreTimes } from '../store.ts'

const INTERVAL_MS = 60_000

/** Printing a warning takes a few milliseconds, which would delay the first calls of an outage. */
const DELAY_MS = 100

/** Deadlines are advised to be this many round trips. */
const ROUND_TRIPS = 3

export type WarnOfOutage = (reason: Degraded['reason'], times: StoreTimes | undefined) => void

export function outageWarning(): WarnOfOutage {
  let warnedMs = Number.NEGATIVE_INFINITY
  return (reason, times) => {
    const nowMs = steadyClock.now()
    if (nowMs - warnedMs < INTERVAL_MS) return
    warnedMs = nowMs
    steadyClock.schedule(() => emitWarning(textOf(reason, times), reason), DELAY_MS)
  }
}

function textOf(reason: Degraded['reason'], times: StoreTimes | undefined): string {
  const found = `rate limits are being decided without the store (${reason})`
  if (times === undefined) return `${found}. ${adviceFor(reason, times)}`
  const { roundTripMs, deadlineMs } = times
  const trip =
    roundTripMs === undefined
      ? 'no round trip was measured'
      : `the round trip takes ${shown(roundTripMs)} ms`
  return `${found}: ${trip}, the deadline is ${shown(deadlineMs)} ms. ${adviceFor(reason, times)}`
}

function adviceFor(reason: Degraded['reason'], times: StoreTimes | undefined): string {
  const { roundTripMs = 0, deadlineMs = Number.POSITIVE_INFINITY } = times ?? {}
  if (roundTripMs >= deadlineMs) {
    const wantedMs = Math.ceil(roundTripMs * ROUND_TRIPS)
    const others =
      roundTripMs > DEADLINE_MS_MAX
        ? `; without it, the deadline is at most ${DEADLINE_MS_MAX} ms.`
        : ', or leave it out to follow the round trip.'
    return `Set deadlineMs to ${wantedMs} or more${others}`
  }
  if (reason === 'overloaded') {
    return 'More calls arrive than can be sent; onOverload decides about those that wait long.'
  }
  return 'Until the store answers, each limit decides as its onStoreError declares.'
}

function shown(ms: number): string {
  return ms < 10 ? ms.toFixed(1) : String(Math.round(ms))
}
