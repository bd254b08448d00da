/**
 * Fixed window: one counter per aligned window, of `perMs` or of a calendar day, week or month.
 *
 * It promises at most `limit` in each window, and no more than that: a client that spends a whole
 * budget at the end of one window and another at the start of the next has twice the limit in an
 * instant. The other algorithms do not have this boundary burst.
 */

import type { Algorithm, ChargeResult } from './algorithm.ts'
import { type Calendar, calendarWindow } from './calendar.ts'

export interface FixedWindowParams {
  readonly algorithm: 'fixedWindow'
  readonly limit: number
  /** The length of a window, or the calendar that its windows follow. */
  readonly per: number | Calendar
}

export interface FixedWindowState {
  readonly count: number
  /** When the counted window began. */
  readonly start: number
}

export interface Window {
  readonly startMs: number
  readonly endMs: number
}

export const fixedWindow: Algorithm<FixedWindowParams, FixedWindowState> = {
  charge(state, cost, now, params, held): ChargeResult<FixedWindowState> {
    const { startMs, endMs } = windowAt(now, params)
    const capacity = params.limit - held
    const count = countAt(state, startMs)
    const allowed = count + cost <= capacity || cost === 0
    const after = allowed ? count + cost : count
    const written = (allowed && cost > 0) || (state !== undefined && state.start > startMs)
    return {
      state: written ? { count: after, start: startMs } : state,
      decision: {
        allowed,
        limit: params.limit,
        remaining: Math.max(0, capacity - after),
        retryAfterMs: allowed ? 0 : cost > capacity ? Infinity : endMs - now,
        resetAfterMs: after > 0 ? endMs - now : 0,
        granted: allowed ? cost : 0,
        degraded: null,
        source: 'store',
      },
    }
  },

  adjust(state, units, now, params) {
    const { startMs } = windowAt(now, params)
    const count = countAt(state, startMs) + units
    return count > 0 ? { count, start: startMs } : undefined
  },
}

export function windowAt(now: number, params: Pick<FixedWindowParams, 'per'>): Window {
  if (typeof params.per !== 'number') return calendarWindow(now, params.per)
  const startMs = now - (now % params.per)
  return { startMs, endMs: startMs + params.per }
}

/**
 * A window that begins after this one is from before the clock jumped back: its count goes on here,
 * so that the jump neither gives a fresh budget nor blocks beyond the end of this window.
 */
function countAt(state: FixedWindowState | undefined, startMs: number): number {
  return state !== undefined && state.start >= startMs ? state.count : 0
}
