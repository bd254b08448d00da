/**
 * Sliding window: the count of the current aligned window plus the previous one's, weighted by how
 * much of it still lies within the trailing window. Two counters, whatever the limit.
 *
 * It promises that the weighted sum never exceeds `limit`: 80 in the previous window, half of which
 * has passed, and 30 in this one are 80 × 0.5 + 30 = 70. The true count of a trailing window may
 * differ from the weighted one if the previous window was not evenly filled; `slidingLog` is
 * exact. All arithmetic is on whole numbers, in units of 1/perMs.
 */

import type { Algorithm, ChargeResult } from './algorithm.ts'

export interface SlidingWindowParams {
  readonly algorithm: 'slidingWindow'
  readonly limit: number
  readonly perMs: number
}

export interface SlidingWindowState {
  readonly previous: number
  readonly current: number
  /** When the current window began. */
  readonly start: number
}

export const slidingWindow: Algorithm<SlidingWindowParams, SlidingWindowState> = {
  charge(state, cost, now, params, held): ChargeResult<SlidingWindowState> {
    const rolled = rollTo(state, now, params)
    const capacity = params.limit - held
    const allowed = weighted(rolled, now, params) <= (capacity - cost) * params.perMs || cost === 0
    const after = allowed && cost > 0 ? { ...rolled, current: rolled.current + cost } : rolled
    const left = capacity * params.perMs - weighted(after, now, params)
    const written = (allowed && cost > 0) || (state !== undefined && state.start > rolled.start)
    return {
      state: written ? after : state,
      decision: {
        allowed,
        limit: params.limit,
        remaining: left > 0 ? Math.floor(left / params.perMs) : 0,
        retryAfterMs: allowed ? 0 : waitMs(rolled, capacity - cost, now, params),
        resetAfterMs: resetMs(after, now, params),
        granted: allowed ? cost : 0,
        degraded: null,
        source: 'store',
      },
    }
  },

  adjust(state, units, now, params) {
    const rolled = rollTo(state, now, params)
    const current = rolled.current + units
    const previous = current < 0 ? Math.max(0, rolled.previous + current) : rolled.previous
    if (current <= 0 && previous === 0) return undefined
    return { previous, current: Math.max(0, current), start: rolled.start }
  },
}

/** The counters as seen from the window that holds `now`. */
function rollTo(
  state: SlidingWindowState | undefined,
  now: number,
  params: SlidingWindowParams,
): SlidingWindowState {
  const start = now - (now % params.perMs)
  if (state === undefined || state.start < start - params.perMs) {
    return { previous: 0, current: 0, start }
  }
  if (state.start === start) return state
  // A window from the future is from before the clock jumped back: its counts go on in this one.
  if (state.start > start) return { previous: state.previous, current: state.current, start }
  return { previous: state.current, current: 0, start }
}

function weighted(state: SlidingWindowState, now: number, params: SlidingWindowParams): number {
  const remainderMs = state.start + params.perMs - now
  return state.previous * remainderMs + state.current * params.perMs
}

/**
 * The wait until the weighted sum is at most `room`, in this window, the next, or the one after.
 */
function waitMs(state: SlidingWindowState, room: number, now: number, params: SlidingWindowParams) {
  if (room < 0) return Infinity
  const sinceStartMs = now - state.start
  if (state.current <= room) {
    return weightDropsAtMs(state.previous, room - state.current, params) - sinceStartMs
  }
  return params.perMs - sinceStartMs + weightDropsAtMs(state.current, room, params)
}

/** How far into a window the share of the previous one is at most `room`. */
function weightDropsAtMs(previous: number, room: number, params: SlidingWindowParams): number {
  if (previous <= room) return 0
  return params.perMs - Math.floor((room * params.perMs) / previous)
}

function resetMs(state: SlidingWindowState, now: number, params: SlidingWindowParams): number {
  const windowEndsMs = state.start + params.perMs - now
  if (state.current > 0) return windowEndsMs + params.perMs
  return state.previous > 0 ? windowEndsMs : 0
}
