/** Reads the directory of Envoy's YAML files. Files that did not change are not parsed again. */

import { createHash } from 'node:crypto'
import { resolve } from 'node:path'
import { type DirectoryOptions, readDirectory, type TextFile } from '../../config/directory.ts'
import type { FileReader, LoadedFiles } from '../../config/file-source.ts'
import { KeptWorker, parseInWorker, workerBeside } from '../../config/parse-in-worker.ts'
import { RlsConfigError } from './config-error.ts'
import { decodeFile, type FileFields } from './decode-file.ts'
import { type ConfigOptions, loadConfig, type RlsConfig } from './rls-config.ts'

export type RlsConfigOptions = ConfigOptions & Partial<DirectoryOptions>

/** The message of the worker. */
export type Decoded =
  | { readonly fields: readonly FileFields[] }
  | { readonly file: string; readonly text: string }

/** A file of the largest size takes a few seconds. */
const DECODE_MS_MAX = 30_000

export function rlsConfigReader(
  directory: string,
  options: RlsConfigOptions,
): FileReader<RlsConfig> {
  const path = resolve(directory)
  const decodeChanged = decodeChangedFiles()
  return {
    path,
    async load(live): Promise<LoadedFiles<RlsConfig>> {
      let read = { files: [path] as readonly string[], hash: '' }
      try {
        const { files, paths } = readDirectory(path, { ignoresDotFiles: false, ...options })
        read = { files: paths, hash: hashOfFiles(files) }
        const fields = await decodeChanged(files, live === undefined ? 'here' : 'worker')
        return { ok: true, value: loadConfig(fields, options), ...read }
      } catch (error) {
        const { message } = error as Error
        return { ok: false, problems: [{ message }], ...read, hash: read.hash || message }
      }
    },
  }
}

/** `kept` is a worker that is there already: quicker if another one would have to start first. */
export type DecodingPlace = 'here' | 'worker' | 'kept'

/** Decodes files, and remembers those that did not change. */
export function decodeChangedFiles() {
  const known = new Map<string, { readonly text: string; readonly fields: FileFields }>()
  return async (
    files: readonly TextFile[],
    place: DecodingPlace,
  ): Promise<readonly FileFields[]> => {
    const changed = files.filter(({ name, text }) => known.get(name)?.text !== text)
    const decoded = await decodeAt(place, changed)
    for (const [at, { name, text }] of changed.entries()) {
      const fields = decoded[at]
      if (fields !== undefined) known.set(name, { text, fields })
    }
    for (const name of known.keys()) {
      if (!files.some((file) => file.name === name)) known.delete(name)
    }
    return files.flatMap(({ name }) => known.get(name)?.fields ?? [])
  }
}

/** Returns the fields in the order of the files. */
export function decodeHere(files: readonly TextFile[]): readonly FileFields[] {
  return files.map(({ name, text }) => decodeFile(name, text))
}

const workerModule = workerBeside(import.meta.url, 'decode-worker')

/** One for the process. */
const kept = new KeptWorker(workerModule)

/**
 * Starts the kept worker, so that the first published files do not wait for it. Resolves when it
 * has decoded a file, or after `timeoutMs`.
 */
export function warmUpDecoder(timeoutMs: number): Promise<void> {
  return kept.ready([{ name: 'none', text: 'domain: none\n' }], timeoutMs)
}

/** Parsing takes a millisecond for every four descriptors. */
async function decodeAt(
  place: DecodingPlace,
  files: readonly TextFile[],
): Promise<readonly FileFields[]> {
  if (place === 'here') return decodeHere(files)
  if (files.length === 0) return []
  const decoded = await (place === 'kept'
    ? kept.parse<Decoded>(files, DECODE_MS_MAX)
    : parseInWorker<Decoded>(workerModule, files, DECODE_MS_MAX))
  if ('fields' in decoded) return decoded.fields
  throw new RlsConfigError(decoded.file, decoded.text)
}

export function hashOfFiles(files: readonly TextFile[]): string {
  const digest = createHash('sha256')
  for (const { name, text } of files) digest.update(`${name}\0${text.length}\0${text}`)
  return digest.digest('hex')
}
