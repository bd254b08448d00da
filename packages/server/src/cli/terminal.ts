/** The process as commands see it: its environment and its output. */

import type { Environment } from '../app/environment.ts'

export interface Terminal {
  readonly environment: Environment
  /** True if the output is a terminal, which can be drawn again. */
  readonly isInteractive?: boolean
  stdout(text: string): void
  stderr(text: string): void
}

export interface Command {
  readonly name: string
  /** One line for the list of commands. */
  readonly summary: string
  /** The output of `tidegate NAME --help`. */
  readonly help: string
  /** Resolves with the exit code. */
  run(args: readonly string[], terminal: Terminal): Promise<number>
}

/** Wrong arguments of a command. The message is shown with a hint, without a stack trace. */
export class UsageError extends Error {}

/** By the convention of shells: 1 for a failure, 2 for wrong arguments. */
export const exitCodes = { ok: 0, failed: 1, usage: 2 } as const
