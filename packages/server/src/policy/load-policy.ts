/** A policy file and the files that it refers to, read and checked together. */

import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { type PolicyProblem, problemAt } from './policy-problem.ts'
import { type PolicyReaders, readAtOnce } from './policy-readers.ts'
import type { PolicyDocument } from './policy-schema.ts'
import type { TierTable } from './tier-table.ts'
import { YAML_BYTES_MAX } from './yaml-text.ts'

export interface PolicyFiles {
  readonly document: PolicyDocument
  /** The file of `tiers.lookup.file`, where there is one. */
  readonly tierTable: TierTable | undefined
  /** The file itself and all that were read for it, as absolute paths. */
  readonly files: readonly string[]
  /** Of everything that was read. */
  readonly hash: string
}

export type LoadResult =
  | ({ readonly ok: true } & PolicyFiles)
  | {
      readonly ok: false
      readonly problems: readonly PolicyProblem[]
      readonly files: readonly string[]
      readonly hash: string
    }

/** Files besides the policy, such as that of API keys, whose change is a change of the policy. */
export type OtherFiles = (document: PolicyDocument) => readonly string[]

/** Files that belong to a policy may be larger than it: a key takes some 150 bytes. */
const OTHER_BYTES_MAX = 64 * 1024 ** 2

export async function loadPolicy(
  file: string,
  otherFiles: OtherFiles = () => [],
  readers: PolicyReaders = readAtOnce,
): Promise<LoadResult> {
  const path = resolve(file)
  const digest = createHash('sha256')
  const text = await readText(path, YAML_BYTES_MAX, digest)
  const files = [path]
  const refuse = (problems: readonly PolicyProblem[]): LoadResult => {
    return { ok: false, problems, files, hash: digest.digest('hex') }
  }
  if (text instanceof FileProblem) return refuse([text.at(file)])
  const read = await readers.policy(text, file)
  if (!read.ok) return refuse(read.problems)
  const { document } = read
  for (const other of otherFiles(document)) {
    const otherPath = resolve(dirname(path), other)
    files.push(otherPath)
    const content = await readText(otherPath, OTHER_BYTES_MAX, digest)
    if (content instanceof FileProblem) return refuse([content.at(other)])
  }
  const tierFile = document.tiers?.lookup?.file
  if (document.tiers === undefined || tierFile === undefined) {
    return { ok: true, document, tierTable: undefined, files, hash: digest.digest('hex') }
  }
  const tierPath = resolve(dirname(path), tierFile)
  files.push(tierPath)
  const tierText = await readText(tierPath, YAML_BYTES_MAX, digest)
  if (tierText instanceof FileProblem) return refuse([tierText.at(tierFile)])
  const table = await readers.tiers(tierText, tierFile, document.tiers.names)
  if (!table.ok) return refuse(table.problems)
  return { ok: true, document, tierTable: table.table, files, hash: digest.digest('hex') }
}

class FileProblem {
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  at(file: string): PolicyProblem {
    return problemAt(file, { line: 1, column: 1 }, { path: [], text: this.#text })
  }
}

/** Reads no more than it may have, also where it is growing or no file at all. */
async function readText(
  path: string,
  bytesMax: number,
  digest: ReturnType<typeof createHash>,
): Promise<string | FileProblem> {
  try {
    await using handle = await open(path, 'r')
    const stat = await handle.stat()
    if (!stat.isFile()) return new FileProblem('is not a file')
    const buffer = Buffer.alloc(Math.min(stat.size, bytesMax) + 1)
    let length = 0
    while (length < buffer.length) {
      const { bytesRead } = await handle.read(buffer, length, buffer.length - length)
      if (bytesRead === 0) break
      length += bytesRead
    }
    if (length > bytesMax) return new FileProblem(`is too large; allowed: ${bytesMax} bytes`)
    const content = buffer.subarray(0, length)
    digest.update(`${path}\0${length}\0`).update(content)
    return content.toString('utf8')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'an error'
    digest.update(`${path}\0${code}`)
    return new FileProblem(code === 'ENOENT' ? 'there is no such file' : `cannot be read: ${code}`)
  }
}
