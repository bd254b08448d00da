/** Files that another process follows. */

import { renameSync, writeFileSync } from 'node:fs'

/**
 * Replaces the file at once. A process that is stopped between the two steps of a plain write would
 * leave an empty file, which is a change of its own for those that follow the file.
 */
export function replaceFile(path: string, text: string): void {
  writeFileSync(`${path}.new`, text)
  renameSync(`${path}.new`, path)
}
