/** Reads all files of a directory and of the folders below it, within bounds on their number. */

import { lstatSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join, relative } from 'node:path'

export interface DirectoryOptions {
  /** Whether files and folders whose names begin with a dot are left out. */
  readonly ignoresDotFiles: boolean
}

export interface TextFile {
  /** The path within the directory. */
  readonly name: string
  readonly text: string
}

export interface DirectoryContent {
  /** Ordered by name. */
  readonly files: readonly TextFile[]
  /** Absolute paths of the directory, the folders below it, and the files. */
  readonly paths: readonly string[]
}

/** Enough for one file per domain; each is checked for changes every second. */
const FILES_MAX = 1_000

/** Deeper than people nest folders. */
const DEPTH_MAX = 8

/** Four times the characters that a file may have: UTF-8 takes at most 4 bytes for each. */
const FILE_BYTES_MAX = 4 * 1_048_576

/** Throws if the directory or a file cannot be read. */
export function readDirectory(directory: string, options: DirectoryOptions): DirectoryContent {
  const { paths, folders } = pathsOf(directory, options)
  const files = paths.map((path) => {
    if (statSync(path).size > FILE_BYTES_MAX) {
      throw new Error(`${path}: more than ${FILE_BYTES_MAX} bytes`)
    }
    return { name: relative(directory, path), text: readFileSync(path, 'utf8') }
  })
  return { files, paths: [...folders, ...paths] }
}

function pathsOf(directory: string, { ignoresDotFiles }: DirectoryOptions) {
  const paths: string[] = []
  const folders: string[] = []
  const visit = (folder: string, depth: number) => {
    folders.push(folder)
    for (const name of readdirSync(folder).sort()) {
      // Kubernetes keeps the versions of a ConfigMap in folders whose names begin with two dots.
      if (name.startsWith('..') || (ignoresDotFiles && name.startsWith('.'))) continue
      const path = join(folder, name)
      const stat = statSync(path)
      if (stat.isFile()) paths.push(path)
      else if (stat.isDirectory() && !isLink(path) && depth < DEPTH_MAX) visit(path, depth + 1)
      if (paths.length > FILES_MAX) throw new Error(`${directory}: more than ${FILES_MAX} files`)
    }
  }
  visit(directory, 0)
  return { paths, folders }
}

/** A link to a folder could lead back to a folder above it. */
function isLink(path: string): boolean {
  return lstatSync(path).isSymbolicLink()
}
