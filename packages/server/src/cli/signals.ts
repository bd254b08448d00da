/** The signals of a terminal, a supervisor or a tool such as logrotate. */

import { exitCodes } from './terminal.ts'

/** Signals of a terminal and of the parent process arrive within a few milliseconds. */
const SAME_SIGNAL_MS = 500

/**
 * Resolves at the first signal, for a clean stop; a later one ends the process immediately. Signals
 * right after the first are the same request, from the terminal and from the parent process.
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

/** Calls at SIGUSR1, which is what nginx opens its logs again at, and Node its debugger. */
export function onReopen(reopen: () => void): void {
  process.on('SIGUSR1', reopen)
}
