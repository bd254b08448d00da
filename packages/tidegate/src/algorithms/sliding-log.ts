/**
 * Sliding log: the exact count of the trailing window, from the time of every admitted request. A
 * request at t counts until just before t + per; in no window of length per are more than `limit`
 * units admitted.
 *
 * An entry is a time (8 bytes) and a cost (4 bytes) in two typed arrays with at most a quarter of
 * slack: 15 bytes per admitted request. States share their arrays: a newer state is a longer view
 * of the same arrays, and an append copies only when they are full or when another state has
 * already been appended there, so that an old state never changes.
 */

import type { Algorithm, ChargeResult } from './algorithm.ts'

export interface SlidingLogParams {
  readonly algorithm: 'slidingLog'
  readonly limit: number
  readonly perMs: number
}

export interface SlidingLogState {
  readonly entries: Entries
  /** The view: entries from `head` up to, not including, `end`. Times never decrease in it. */
  readonly head: number
  readonly end: number
  /** The sum of the costs in the view. */
  readonly total: number
}

interface Entries {
  readonly times: Float64Array
  readonly costs: Uint32Array
  /** How many entries are written; the only thing that changes, and no view reaches beyond it. */
  filled: number
}

/** A cost has 32 bits in an entry. */
export const LOG_COST_MAX = 2 ** 32 - 1

/** The first request of a key should not pay for many; a few more should not copy each time. */
const CAPACITY_MIN = 4

/** 12 bytes per entry times this stays below 16. */
const CAPACITY_SLACK = 1.25

export const slidingLog: Algorithm<SlidingLogParams, SlidingLogState> = {
  charge(state, cost, now, params, held): ChargeResult<SlidingLogState> {
    const live = trim(state, now, params)
    const capacity = params.limit - held
    const allowed = live.total + cost <= capacity || cost === 0
    const after = allowed && cost > 0 ? append(live, now, cost) : live
    return {
      state: after.total > 0 ? after : undefined,
      decision: {
        allowed,
        limit: params.limit,
        remaining: Math.max(0, capacity - after.total),
        retryAfterMs: allowed ? 0 : waitMs(live, live.total + cost - capacity, now, params),
        resetAfterMs: after.total > 0 ? timeAt(after, after.end - 1) + params.perMs - now : 0,
        granted: allowed ? cost : 0,
        degraded: null,
        source: 'store',
      },
    }
  },

  adjust(state, units, now, params) {
    const live = trim(state, now, params)
    const after = units >= 0 ? append(live, now, units) : takeBack(live, -units)
    return after.total > 0 ? after : undefined
  },
}

/** The entries of a state, oldest first, for tests and for stores that keep them elsewhere. */
export function logEntries(state: SlidingLogState): Array<{ time: number; cost: number }> {
  const entries = []
  for (let at = state.head; at < state.end; at++) {
    entries.push({ time: timeAt(state, at), cost: costAt(state, at) })
  }
  return entries
}

/** The bytes that a state's arrays take. */
export function logBytes(state: SlidingLogState): number {
  return state.entries.times.byteLength + state.entries.costs.byteLength
}

/** Drops entries that have left the window, and moves entries from the future to `now`. */
function trim(
  state: SlidingLogState | undefined,
  now: number,
  params: SlidingLogParams,
): SlidingLogState {
  if (state === undefined) return emptyLog()
  let { head, total } = state
  while (head < state.end && timeAt(state, head) + params.perMs <= now) {
    total -= costAt(state, head)
    head++
  }
  const live = head === state.head ? state : { ...state, head, total }
  const isAhead = head < state.end && timeAt(state, state.end - 1) > now
  return isAhead ? bringToPresent(live, now) : live
}

/** The clock jumped back: entries ahead of it count as of now. */
function bringToPresent(state: SlidingLogState, now: number): SlidingLogState {
  const copy = copyOf(state)
  for (let at = copy.end - 1; at >= 0 && timeAt(copy, at) > now; at--) copy.entries.times[at] = now
  return copy
}

/** The wait until enough of the oldest entries have left to free `units`. */
function waitMs(state: SlidingLogState, units: number, now: number, params: SlidingLogParams) {
  let freed = 0
  for (let at = state.head; at < state.end; at++) {
    freed += costAt(state, at)
    if (freed >= units) return timeAt(state, at) + params.perMs - now
  }
  return Infinity
}

function append(state: SlidingLogState, time: number, cost: number): SlidingLogState {
  if (cost === 0) return state
  const { entries, end } = state
  const fits = end < entries.times.length && end === entries.filled
  const isSparse = (end - state.head) * 4 < entries.times.length && state.head > CAPACITY_MIN
  const target = fits && !isSparse ? state : copyOf(state)
  target.entries.times[target.end] = time
  target.entries.costs[target.end] = Math.min(cost, LOG_COST_MAX)
  target.entries.filled = target.end + 1
  return { ...target, end: target.end + 1, total: target.total + Math.min(cost, LOG_COST_MAX) }
}

/** Takes back the newest entries first: a refund undoes the latest admissions. */
function takeBack(state: SlidingLogState, units: number): SlidingLogState {
  const copy = copyOf(state)
  let { end, total } = copy
  for (let left = units; left > 0 && end > 0; ) {
    const taken = Math.min(left, costAt(copy, end - 1))
    const rest = costAt(copy, end - 1) - taken
    copy.entries.costs[end - 1] = rest
    if (rest === 0) end--
    left -= taken
    total -= taken
  }
  copy.entries.filled = end
  return { ...copy, end, total }
}

function emptyLog(): SlidingLogState {
  return { entries: newEntries(0), head: 0, end: 0, total: 0 }
}

/** A state of its own arrays, with room for at least one more entry. */
function copyOf(state: SlidingLogState): SlidingLogState {
  const entries = newEntries(state.end - state.head)
  entries.times.set(state.entries.times.subarray(state.head, state.end))
  entries.costs.set(state.entries.costs.subarray(state.head, state.end))
  entries.filled = state.end - state.head
  return { entries, head: 0, end: entries.filled, total: state.total }
}

function newEntries(count: number): Entries {
  const capacity = Math.max(CAPACITY_MIN, Math.floor((count + 1) * CAPACITY_SLACK))
  return { times: new Float64Array(capacity), costs: new Uint32Array(capacity), filled: 0 }
}

function timeAt(state: SlidingLogState, at: number): number {
  return state.entries.times[at] ?? 0
}

function costAt(state: SlidingLogState, at: number): number {
  return state.entries.costs[at] ?? 0
}
