/** Measures how late the event loop is, by a timer that says when it should have been called. */

import type { Overload } from './overload.ts'

/**
 * Short against the delays that matter, and at 100 calls per second less than a thousandth of a
 * core.
 */
const TICK_MS = 10

/** Returns a function that ends it. The timer does not keep the process alive. */
export function watchLoop(overload: Pick<Overload, 'observe'>): () => void {
  let lastMs = performance.now()
  const timer = setInterval(() => {
    const nowMs = performance.now()
    const elapsedMs = nowMs - lastMs
    lastMs = nowMs
    overload.observe(Math.max(0, elapsedMs - TICK_MS), elapsedMs)
  }, TICK_MS).unref()
  return () => clearInterval(timer)
}
