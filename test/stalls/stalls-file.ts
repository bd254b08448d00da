/** Where it is written down when the machine stood still, for whoever has to know. */

import { readFileSync } from 'node:fs'

/** Names the file; set while tests run. */
export const STALLS_FILE = 'TIDEGATE_TEST_STALLS'

/** Shorter ones are what a machine with much to do always has, and tests bear them. */
export const STALL_MS_MIN = 1_000

/** How long the machine stood still at most, since then; both in milliseconds, as of `Date.now`. */
export function longestStallMs(sinceMs: number): number {
  const file = process.env[STALLS_FILE]
  if (file === undefined) return 0
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean)
  const stalls = lines.map((line) => line.split(' ').map(Number))
  const lengths = stalls.map(([fromMs = 0, toMs = 0]) => (toMs > sinceMs ? toMs - fromMs : 0))
  return Math.max(0, ...lengths)
}
