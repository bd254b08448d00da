/** Waits for conditions of real servers, which a fake clock cannot control. */

import { setTimeout as sleep } from 'node:timers/promises'
import { isSoak } from '../suite.ts'

const POLL_INTERVAL_MS = 20

/**
 * Far longer than any condition takes, also on a machine that stalls for seconds, so that only a
 * fault reaches it. Long tests run beside one another for minutes.
 */
const WAIT_MS_MAX = isSoak ? 180_000 : 60_000

/** Polls until the result is neither false nor undefined; an error counts as not yet. */
export async function until<T>(
  what: string,
  ask: () => Promise<T | false | undefined> | T | false | undefined,
): Promise<T> {
  const end = Date.now() + WAIT_MS_MAX
  for (;;) {
    let cause: unknown
    try {
      const answer = await ask()
      if (answer !== false && answer !== undefined) return answer
    } catch (error) {
      cause = error
    }
    if (Date.now() > end) throw new Error(`waited too long until ${what}`, { cause })
    await sleep(POLL_INTERVAL_MS)
  }
}
