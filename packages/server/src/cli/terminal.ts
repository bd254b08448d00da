/** What a command sees of the process that it runs in. */

import type { Environment } from '../environment.ts'

export interface Terminal {
  readonly environment: Environment
  print(text: string): void
  complain(text: string): void
}

export interface Command {
  readonly name: string
  /** One line for the list of commands. */
  readonly summary: string
  /** What `tidegate NAME --help` prints. */
  readonly help: string
  /** Resolves with the exit code. */
  run(args: readonly string[], terminal: Terminal): Promise<number>
}

/** A mistake in how a command was called: its message is shown with a hint, without a trace. */
export class UsageError extends Error {}

/** As shells have it: 1 where something is wrong, 2 for a command that was called wrongly. */
export const exitCodes = { ok: 0, failed: 1, usage: 2 } as const
