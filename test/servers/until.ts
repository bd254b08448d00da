/** Waiting for a condition of a real server, which no fake clock can hurry. */

import { setTimeout as sleep } from 'node:timers/promises'

const POLL_INTERVAL_MS = 20

/**
 * Far beyond what any of our conditions takes, also on a machine that stands still for some seconds
 * now and then, so that only a fault meets it.
 */
const WAIT_MS_MAX = 60_000

/** Asks until the answer is neither false nor undefined; an error of asking counts as not yet. */
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
