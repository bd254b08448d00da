/** Finds programs on this machine. */

import { accessSync, constants } from 'node:fs'
import { delimiter, isAbsolute, join } from 'node:path'

/** The path of the first of these programs, in `folders` or on the PATH. */
export function findProgram(
  names: readonly string[],
  folders: readonly string[] = [],
): string | undefined {
  const onPath = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '')
  const pathsOf = (name: string) => [...folders, ...onPath].map((folder) => join(folder, name))
  return names.flatMap((name) => (isAbsolute(name) ? [name] : pathsOf(name))).find(isExecutable)
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
