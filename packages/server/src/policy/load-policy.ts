/** Reads and checks a policy file together with the files that it names. */

import { createHash } from 'node:crypto'
import { dirname, resolve } from 'node:path'
import type { FileReader, LoadedFiles } from '../config/file-source.ts'
import { type FileProblem, readBytes, textOf } from '../config/read-file.ts'
import { YAML_BYTES_MAX } from '../config/yaml/yaml-text.ts'
import type { TierTable } from '../limits/tiers/tiers.ts'
import type { KeyTable } from './api-keys/key-table.ts'
import { namedFiles } from './named-files.ts'
import {
  type PolicyParsers,
  parseHere,
  parseInKeptWorker,
  parseInWorkers,
} from './policy-parsers.ts'
import { type PolicyProblem, problemAt } from './problems/policy-problem.ts'
import type { PolicyText } from './read-policy.ts'
import type { PolicyDocument } from './schema/policy-schema.ts'

export interface PolicyFiles {
  readonly document: PolicyDocument
  /** The file of `tiers.lookup.file`, if there is one. */
  readonly tierTable: TierTable | undefined
  /** The file of `auth.apiKeys.file`, if there is one. */
  readonly keyTable: KeyTable | undefined
  /** How the text of the policy ends, which shows whether a later one was cut off. */
  readonly ending: TextEnding
}

/** Files, such as certificates, whose change is a change of the policy. */
export type NamedFiles = (document: PolicyDocument) => readonly string[]

/**
 * From the surest sign that a text is complete to none: the marker `...`, which ends a document in
 * YAML, a line that is ended, or neither.
 */
export const textEndings = ['marker', 'line', 'open'] as const

export type TextEnding = (typeof textEndings)[number]

/** The marker, and empty lines after it. */
const ENDING_LENGTH = 64

/** Certificates of all public authorities take 250 KB. */
const NAMED_BYTES_MAX = 4 * 1024 ** 2

const start = { line: 1, column: 1 }

/**
 * `filesOf` returns the files whose content only counts as part of the policy. `changeParsers` read
 * the file when it has changed: in a worker unless a test passes others, since requests are served.
 */
export function policyReader(
  file: string,
  filesOf: NamedFiles = namedFiles,
  changeParsers: PolicyParsers = parseInWorkers,
): FileReader<PolicyFiles> {
  const load = policyLoader(file, filesOf, changeParsers)
  return { path: resolve(file), load: (live) => load(undefined, live) }
}

/** Loads the file, with the sections of `remote` in place of its own if there is one. */
export type PolicyLoader = (
  remote: PolicyText | undefined,
  live: PolicyFiles | undefined,
) => Promise<LoadedFiles<PolicyFiles>>

export function policyLoader(
  file: string,
  filesOf: NamedFiles = namedFiles,
  changeParsers: PolicyParsers = parseInWorkers,
): PolicyLoader {
  return async (remote, live) => {
    // A text from outside may have been made to be slow, also at the start.
    const parsersOfFile = live === undefined ? parseHere : changeParsers
    const parsers = remote === undefined ? parsersOfFile : parseInKeptWorker
    const knownKeys = live?.keyTable
    const loaded = await loadPolicy(file, { parsers, knownKeys, filesOf, remote })
    return live === undefined ? loaded : whole(loaded, file, live)
  }
}

export interface LoadOptions {
  readonly parsers?: PolicyParsers
  /** The keys in use: they are kept if their file has not changed. */
  readonly knownKeys?: KeyTable | undefined
  readonly filesOf?: NamedFiles
  /** A policy from outside, which replaces sections of the file. */
  readonly remote?: PolicyText | undefined
}

export async function loadPolicy(
  file: string,
  { parsers = parseHere, knownKeys, filesOf = namedFiles, remote }: LoadOptions = {},
): Promise<LoadedFiles<PolicyFiles>> {
  const loading = new Loading(resolve(file))
  try {
    const text = await loading.text(loading.path, file)
    if (remote !== undefined) loading.include(remote)
    const read = await parsers.policy(text, file, remote)
    if (!read.ok) throw new Refused(read.problems)
    const { document } = read
    for (const other of filesOf(document)) await loading.bytes(other, NAMED_BYTES_MAX)
    const keyTable = await loading.keys(document, parsers, knownKeys)
    const tierTable = await loading.tiers(document, parsers)
    const value = { document, tierTable, keyTable, ending: endingOf(text) }
    return { ok: true, value, ...loading.read() }
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    return { ok: false, problems: error.problems, ...loading.read() }
  }
}

class Refused extends Error {
  readonly problems: readonly PolicyProblem[]

  constructor(problems: readonly PolicyProblem[]) {
    super('refused')
    this.problems = problems
  }
}

/** The files that are read for one policy, and the digest of their contents. */
class Loading {
  readonly path: string
  readonly #files: string[] = []
  readonly #digest = createHash('sha256')

  constructor(path: string) {
    this.path = path
  }

  read(): { readonly files: readonly string[]; readonly hash: string } {
    return { files: this.#files, hash: this.#digest.digest('hex') }
  }

  /** Counts a text that is not in a file as a part of the policy. */
  include({ file, text }: PolicyText): void {
    this.#digest.update(`${file}\0${text.length}\0${text}`)
  }

  /** `name` is relative to the folder of the policy; `shown` is its name in problems. */
  async bytes(name: string, bytesMax: number, shown = name): Promise<Buffer> {
    const path = this.#open(name)
    const content = await readBytes(path, bytesMax)
    if (!Buffer.isBuffer(content)) {
      // Another reason is another state of the file.
      this.#digest.update(`${path}\0${content.reason}`)
      throw refusal(shown, content)
    }
    this.#digest.update(`${path}\0${content.length}\0`).update(content)
    return content
  }

  async text(name: string, shown = name): Promise<string> {
    const text = textOf(await this.bytes(name, YAML_BYTES_MAX, shown))
    if (typeof text === 'string') return text
    throw refusal(shown, text)
  }

  async keys(
    { auth }: PolicyDocument,
    parsers: PolicyParsers,
    known: KeyTable | undefined,
  ): Promise<KeyTable | undefined> {
    const file = auth.apiKeys?.file
    if (file === undefined) return undefined
    const path = this.#open(file)
    const keys = await parsers.keys({ path, file, knownDigest: known?.digest })
    const table = keys.ok ? (keys.table === 'known' ? known : keys.table) : undefined
    this.#digest.update(`${path}\0${keys.ok ? table?.digest : keys.digest}`)
    if (keys.ok) return table
    throw new Refused(keys.problems)
  }

  async tiers({ tiers }: PolicyDocument, parsers: PolicyParsers): Promise<TierTable | undefined> {
    const file = tiers?.lookup?.file
    if (tiers === undefined || file === undefined) return undefined
    const table = await parsers.tiers(await this.text(file), file, tiers.names)
    if (table.ok) return table.table
    throw new Refused(table.problems)
  }

  #open(name: string): string {
    const path = resolve(dirname(this.path), name)
    this.#files.push(path)
    return path
  }
}

function refusal(file: string, { reason, line, column }: FileProblem): Refused {
  return new Refused([problemAt(file, { line, column }, { path: [], text: reason })])
}

/** Refuses a text that ends less surely than the live one: it was probably cut off. */
function whole(
  loaded: LoadedFiles<PolicyFiles>,
  file: string,
  { ending }: PolicyFiles,
): LoadedFiles<PolicyFiles> {
  if (!loaded.ok || textEndings.indexOf(loaded.value.ending) <= textEndings.indexOf(ending)) {
    return loaded
  }
  const end = ending === 'marker' ? 'with the marker ...' : 'with a newline'
  const text = `may be cut off: it does not end ${end}, as the policy before it did`
  const { files, hash } = loaded
  return { ok: false, problems: [problemAt(file, start, { path: [], text })], files, hash }
}

function endingOf(text: string): TextEnding {
  if (/^\.\.\.\s*$/m.test(text.slice(-ENDING_LENGTH))) return 'marker'
  return /[\n\r]\s*$/.test(text.slice(-ENDING_LENGTH)) ? 'line' : 'open'
}
