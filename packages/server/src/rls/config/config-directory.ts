/**
 * The directory of the configuration: every file in it and below, and whether any has changed.
 * Files are read completely or not at all: where something changes while they are read, the caller
 * has to look again.
 */

import { lstatSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { ConfigFile } from './rls-config.ts'

export interface DirectoryOptions {
  /** Whether files and directories whose names begin with a dot are left out. */
  readonly ignoresDotFiles: boolean
}

const FILES_MAX = 1_000

const DEPTH_MAX = 8

/** The characters that are parsed take at most as many bytes. */
const FILE_BYTES_MAX = 4 * 1_048_576

/** In the order of their names. */
export function readConfigFiles(directory: string, options: DirectoryOptions): ConfigFile[] {
  return pathsOf(directory, options).map((path) => {
    if (statSync(path).size > FILE_BYTES_MAX) {
      throw new Error(`${path}: more than ${FILE_BYTES_MAX} bytes`)
    }
    return { name: relative(directory, path), text: readFileSync(path, 'utf8') }
  })
}

/**
 * A text that changes when a file does; one for a directory that cannot be read as well. A mounted
 * ConfigMap changes by the swap of a link, so it has the real path, too.
 */
export function fingerprintOf(directory: string, options: DirectoryOptions): string {
  try {
    const files = pathsOf(directory, options).map((path) => {
      const { ino, size, mtimeMs, ctimeMs } = statSync(path)
      return `${path}\0${ino}\0${size}\0${mtimeMs}\0${ctimeMs}`
    })
    return [realpathSync(directory), ...files].join('\n')
  } catch (error) {
    return `unreadable: ${(error as Error).message}`
  }
}

function pathsOf(directory: string, { ignoresDotFiles }: DirectoryOptions): string[] {
  const paths: string[] = []
  const visit = (folder: string, depth: number) => {
    for (const name of readdirSync(folder).sort()) {
      // Kubernetes keeps the versions of a ConfigMap in names that begin with two.
      if (name.startsWith('..') || (ignoresDotFiles && name.startsWith('.'))) continue
      const path = join(folder, name)
      const stat = statSync(path)
      if (stat.isFile()) paths.push(path)
      else if (stat.isDirectory() && !isLink(path) && depth < DEPTH_MAX) visit(path, depth + 1)
      if (paths.length > FILES_MAX) throw new Error(`${directory}: more than ${FILES_MAX} files`)
    }
  }
  visit(directory, 0)
  return paths
}

/** A link to a directory could lead in a circle. */
function isLink(path: string): boolean {
  return lstatSync(path).isSymbolicLink()
}
