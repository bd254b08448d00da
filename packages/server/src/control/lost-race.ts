/** How long a writer waits after another one was faster, before it tries again. */

import { setTimeout as sleep } from 'node:timers/promises'

/** Attempts spread over this time, which grows with every attempt. */
const PAUSE_MS = 4
const PAUSE_MS_MAX = 250

/** `attempt` counts from 1. All writers wait alike, so that none of them starves. */
export async function pauseAfterLostRace(attempt: number): Promise<void> {
  await sleep(Math.random() * Math.min(PAUSE_MS * attempt, PAUSE_MS_MAX))
}
