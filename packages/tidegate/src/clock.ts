/**
 * Time is a dependency. Stores read it for their decisions, `wait` for its timers.
 */

export interface Clock {
  /**
   * Wall clock in milliseconds since 1970. It may jump; the algorithms bound what a jump can do.
   */
  now(): number
  /** Runs `callback` once after `delayMs`; the returned function cancels it. */
  schedule(callback: () => void, delayMs: number): () => void
}

/** Beyond this, Node fires a timer immediately (a signed 32-bit millisecond count). */
export const TIMER_DELAY_MS_MAX = 2 ** 31 - 1

/** Reads `Date` and `setTimeout` at every call, so that fake timers of test runners work. */
export const systemClock: Clock = {
  now: () => Date.now(),
  schedule(callback, delayMs) {
    const timer = setTimeout(callback, Math.min(delayMs, TIMER_DELAY_MS_MAX))
    return () => clearTimeout(timer)
  },
}

/**
 * Time that never jumps, in milliseconds: for the duration of calls, not for decisions.
 */
export const steadyClock: Clock = {
  now: () => performance.now(),
  schedule: (callback, delayMs) => systemClock.schedule(callback, delayMs),
}

/** Runs `callback` again and again, without keeping the process alive; the result stops it. */
export function repeat(callback: () => void, intervalMs: number): () => void {
  const timer = setInterval(callback, intervalMs)
  // In runtimes other than Node, a timer is a number and keeps nothing alive.
  if (typeof timer === 'object') timer.unref()
  return () => clearInterval(timer)
}

/** A clock that stands still until it is moved: time for tests. */
export interface ManualClock extends Clock {
  /** Moves forward, and runs the callbacks that are due, in the order of their time. */
  advance(ms: number): void
  /** Jumps without running anything, also backwards, as a wall clock may. */
  jump(ms: number): void
}

export function manualClock(startMs = 1_700_000_000_000): ManualClock {
  let now = startMs
  const scheduled = new Set<{ at: number; callback: () => void }>()
  return {
    now: () => now,
    schedule(callback, delayMs) {
      const timer = { at: now + delayMs, callback }
      scheduled.add(timer)
      return () => scheduled.delete(timer)
    },
    advance(ms) {
      const end = now + ms
      for (let next = due(scheduled, end); next !== undefined; next = due(scheduled, end)) {
        scheduled.delete(next)
        now = Math.max(now, next.at)
        next.callback()
      }
      now = end
    },
    jump(ms) {
      now += ms
    },
  }
}

function due<T extends { readonly at: number }>(scheduled: Iterable<T>, end: number) {
  return [...scheduled].filter(({ at }) => at <= end).sort((one, other) => one.at - other.at)[0]
}
