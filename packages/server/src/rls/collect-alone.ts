/**
 * Garbage is collected by the thread that makes it. V8 shares the work of a pause with helper
 * threads, and waits for each of them: on a busy machine, a helper that has lost its processor
 * keeps all calls waiting for a hundred milliseconds and more.
 *
 * V8 reads these settings at each collection, for how many threads take part in it, so that they
 * can be changed while it runs. Of most others that is not true: without helpers, marking and
 * sweeping go other ways, so these stay as they are.
 */

import { setFlagsFromString } from 'node:v8'

const sharedWork = ['parallel-scavenge', 'parallel-compaction', 'parallel-pointer-update']

/** For this process, from the next collection on. */
export function collectAlone(): void {
  for (const work of sharedWork) setFlagsFromString(`--no-${work}`)
}
