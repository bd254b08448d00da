/** How many source files a folder holds. */

import { posix } from 'node:path'
import type { Violation } from './rule.ts'
import type { SourceFile } from './source-file.ts'

/** More names than this are a list to search, not a picture that a reader keeps in mind. */
export const FOLDER_FILES_MAX = 16

/** A crowded folder is reported at the first of its files. */
export function crowdedFolder({ path }: SourceFile, all: readonly SourceFile[]): Violation[] {
  const folder = posix.dirname(path)
  const sources = all.map((file) => file.path).filter(isSource)
  const beside = sources.filter((other) => posix.dirname(other) === folder)
  if (beside.length <= FOLDER_FILES_MAX || beside.toSorted()[0] !== path) return []
  return [{ line: 1, text: `one of ${beside.length} source files in ${folder}` }]
}

function isSource(path: string): boolean {
  return /\.(tsx?|lua|sql)$/.test(path) && !path.endsWith('.test.ts')
}
