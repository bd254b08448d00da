/**
 * Envoy's YAML files as one text, so that they can be published as one version. A line such as
 * `--- # shop.yaml` begins a file.
 */

import type { TextFile } from '../../config/directory.ts'
import type { LoadedFiles } from '../../config/file-source.ts'
import { RlsConfigError } from './config-error.ts'
import { decodeChangedFiles, hashOfFiles, type RlsConfigOptions } from './config-files.ts'
import { loadConfig, type RlsConfig } from './rls-config.ts'

const BEGIN = /^--- # ([A-Za-z0-9_./-]{1,200})$/

/** Enough for one file per domain. */
const FILES_MAX = 1_000

export function bundleOf(files: readonly TextFile[]): string {
  const ended = (text: string) => (text.endsWith('\n') ? text : `${text}\n`)
  return files.map(({ name, text }) => `--- # ${name}\n${ended(text)}`).join('')
}

/** Throws RlsConfigError if the text does not begin with the name of a file. */
export function filesOfBundle(text: string): readonly TextFile[] {
  const files: { readonly name: string; readonly lines: string[] }[] = []
  for (const line of text.split('\n')) {
    const name = BEGIN.exec(line)?.[1]
    const last = files.at(-1)
    if (name !== undefined) files.push({ name, lines: [] })
    else if (last !== undefined) last.lines.push(line)
    else if (line.trim() !== '') {
      throw new RlsConfigError('the bundle', 'has to begin with a line such as --- # shop.yaml')
    }
    if (files.length > FILES_MAX) throw new RlsConfigError('the bundle', 'has too many files')
  }
  return files.map(({ name, lines }) => ({ name, text: lines.join('\n') }))
}

/** Loads a bundle. Undefined is a configuration without domains. */
export function bundleLoader(options: RlsConfigOptions) {
  const decode = decodeChangedFiles()
  return async (text: string | undefined): Promise<LoadedFiles<RlsConfig>> => {
    const read = { files: [], hash: text ?? '' }
    try {
      const files = text === undefined ? [] : filesOfBundle(text)
      // A text from outside may have been made to be slow, also at the start.
      const fields = await decode(files, 'kept')
      return { ok: true, value: loadConfig(fields, options), ...read, hash: hashOfFiles(files) }
    } catch (error) {
      return { ok: false, problems: [{ message: (error as Error).message }], ...read }
    }
  }
}
