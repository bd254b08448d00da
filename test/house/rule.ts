/** The contract of a rule of the tidy test. */

import type { SourceFile } from './source-file.ts'

export interface Rule {
  readonly name: string
  /** The places of one file that break the rule; `all` is the whole repository. */
  check(file: SourceFile, all: readonly SourceFile[]): readonly Violation[]
  /** Files, by their paths, that break the rule once. */
  readonly broken: Readonly<Record<string, string>>
}

export interface Violation {
  readonly line: number
  readonly text: string
}
