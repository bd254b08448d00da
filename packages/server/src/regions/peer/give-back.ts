/**
 * Whether units that were charged and then not needed can be given back to their counter. In the
 * next window they would be units that nothing was charged for there, and the limit would be
 * exceeded. So they stay charged if the window may end before the message arrives.
 */

import type { Decision, Limit } from 'tidegate'
import { lastsMs } from 'tidegate/regions'

/** Longer than a message takes on a link that is up. Units are lost for at most this time. */
const MESSAGE_MS_MAX = 1_000

/** `elapsedMs`: since the charge was sent, which is before the store has made it. */
export function canGiveBack(
  limit: Limit,
  { resetAfterMs }: Pick<Decision, 'resetAfterMs'>,
  elapsedMs: number,
): boolean {
  // With open leases, this is the time of the last one, and nothing is known of the window.
  if (resetAfterMs > lastsMs(limit)) return false
  // Half of the time is that of the next window, in which the units count less and less.
  const afterMs = limit.algorithm === 'slidingWindow' ? limit.perMs : 0
  return resetAfterMs - afterMs - elapsedMs > MESSAGE_MS_MAX
}
