/** Waiting for the end: what a terminal or a supervisor sends. */

import { exitCodes } from './terminal.ts'

const SAME_SIGNAL_MS = 500

/**
 * The first signal ends it in order, another one at once. Those that come right after the first are
 * the same request to stop, from a terminal and from whoever started this process.
 */
export function untilStopped(): Promise<void> {
  return new Promise((resolve) => {
    let firstAtMs: number | undefined
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.on(signal, () => {
        firstAtMs ??= performance.now()
        if (performance.now() - firstAtMs > SAME_SIGNAL_MS) process.exit(exitCodes.failed)
        resolve()
      })
    }
  })
}
