/**
 * The file of known API keys: one JSON object per line if its name ends in .jsonl or .ndjson, else
 * a YAML list. Either is read key by key and becomes a table; nothing of it is kept as objects.
 */

import { isUtf8 } from 'node:buffer'
import { hash } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { type Position, parseYaml, YAML_BYTES_MAX } from '../../config/yaml/yaml-text.ts'
import {
  notAllowed,
  type PolicyIssue,
  type PolicyProblem,
  PROBLEMS_MAX,
  problemAt,
} from '../problems/policy-problem.ts'
import { HMAC_BYTES, type KeyTable, KeyTableBuilder } from './key-table.ts'

export interface KeyFile {
  readonly path: string
  /** The name of the file in problems. */
  readonly file: string
  /** The digest of a table that is in use: a file with the same content is not parsed again. */
  readonly knownDigest: string | undefined
}

export type KeyFileResult =
  | { readonly ok: true; readonly table: KeyTable }
  | { readonly ok: true; readonly table: 'known' }
  | { readonly ok: false; readonly problems: readonly PolicyProblem[]; readonly digest: string }

/** Two million keys: six seconds of the thread, and a table of 140 MB. More is a mistake. */
const LINES_BYTES_MAX = 256 * 1024 ** 2

/** Over 100,000 keys. YAML takes 0.1 ms for each, some 30 times as long as a line of JSON. */
const LIST_BYTES_MAX = 16 * 1024 ** 2

/** Parsed at a time: small enough that memory stays bounded, large enough to be quick. */
const PIECE_BYTES = 64 * 1024

const TEXT_LENGTH_MAX = 128
const TEXT_ALLOWED = `a text of 1 to ${TEXT_LENGTH_MAX} characters`
const HMAC_ALLOWED = 'an HMAC-SHA256 as 64 hexadecimal digits'

const fields = ['hmac', 'id', 'organisation', 'tier'] as const

const LINE_FEED = 0x0a

export function readKeyFile({ path, file, knownDigest }: KeyFile): KeyFileResult {
  const isLines = /\.(jsonl|ndjson)$/i.test(file)
  const bytesMax = isLines ? LINES_BYTES_MAX : LIST_BYTES_MAX
  const content = readBounded(path, bytesMax)
  if (typeof content === 'string') {
    const text = isLines || content !== tooLarge(bytesMax) ? content : `${content}; ${LINES_HINT}`
    return { ok: false, problems: [atStart(file, text)], digest: content }
  }
  // One content can mean two things.
  const digest = `${isLines ? 'lines' : 'list'}-${hash('sha256', content, 'hex')}`
  if (digest === knownDigest) return { ok: true, table: 'known' }
  if (!isUtf8(content)) return { ok: false, problems: [atStart(file, 'is not UTF-8')], digest }
  const keys = new Keys(file)
  if (isLines) addLines(content, keys)
  else addList(content.toString('utf8'), keys)
  if (keys.problems.length > 0) return { ok: false, problems: keys.problems, digest }
  return { ok: true, table: keys.build(digest) }
}

const LINES_HINT = 'a file of one JSON object per line, named .jsonl, may have more'

function tooLarge(bytesMax: number): string {
  return `is too large; allowed: ${bytesMax} bytes`
}

/** Returns the content, or the reason why there is none. Reads at most `bytesMax` bytes and one. */
function readBounded(path: string, bytesMax: number): Buffer | string {
  let handle: number | undefined
  try {
    // A FIFO without a writer would block the thread for ever.
    handle = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const stat = fstatSync(handle)
    if (!stat.isFile()) return 'is not a file'
    const buffer = Buffer.allocUnsafeSlow(Math.min(stat.size, bytesMax) + 1)
    let length = 0
    while (length < buffer.length) {
      const bytes = readSync(handle, buffer, length, buffer.length - length, null)
      if (bytes === 0) break
      length += bytes
    }
    return length > bytesMax ? tooLarge(bytesMax) : buffer.subarray(0, length)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'an error'
    return code === 'ENOENT' ? 'there is no such file' : `cannot be read: ${code}`
  } finally {
    if (handle !== undefined) closeSync(handle)
  }
}

/** The keys and problems of one file. */
class Keys {
  readonly file: string
  readonly problems: PolicyProblem[] = []
  readonly #table = new KeyTableBuilder()
  readonly #hmac = Buffer.alloc(HMAC_BYTES)
  /** Where keys stand, to name the first of two: a line, or a number in a list. */
  readonly #places: number[] = []

  constructor(file: string) {
    this.file = file
  }

  get isFull(): boolean {
    return this.problems.length >= PROBLEMS_MAX
  }

  refuse(position: Position, issue: PolicyIssue): void {
    if (!this.isFull) this.problems.push(problemAt(this.file, position, issue))
  }

  /** `positionOf` is asked for problems only. Their paths begin with `at`. */
  add(value: unknown, at: readonly number[], positionOf: (issue: PolicyIssue) => Position): void {
    const issue = issueOf(value, at) ?? this.#keep(value as WrittenKey, at, positionOf)
    if (issue !== undefined) this.refuse(positionOf(issue), issue)
  }

  build(digest: string): KeyTable {
    return this.#table.build(digest)
  }

  #keep(
    { hmac, ...key }: WrittenKey,
    at: readonly number[],
    positionOf: (issue: PolicyIssue) => Position,
  ): PolicyIssue | undefined {
    this.#hmac.write(hmac, 'hex')
    const row = this.#table.add(this.#hmac, key)
    // The line of an entry of YAML takes long to find; its number in the list is at hand.
    const [entry] = at
    if (row === undefined) {
      this.#places.push(entry ?? positionOf({ path: at, text: '' }).line)
      return undefined
    }
    const first = `${entry === undefined ? 'line ' : 'entry '}${this.#places[row]}`
    return { path: [...at, 'hmac'], text: `stands in ${first} already` }
  }
}

interface WrittenKey {
  readonly hmac: string
  readonly id: string
  readonly organisation?: string
  readonly tier?: string
}

/** The first issue of an entry; undefined if it is a key. */
function issueOf(value: unknown, at: readonly number[]): PolicyIssue | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return notAllowed(at, value, 'a mapping with hmac and id')
  }
  const entry = value as Readonly<Record<string, unknown>>
  for (const name of Object.keys(entry)) {
    if (fields.some((field) => field === name)) continue
    const text = `is not known; allowed: ${fields.join(', ')}`
    return { path: [...at, name], text, isAboutKey: true }
  }
  const { hmac, id, organisation, tier } = entry
  if (typeof hmac !== 'string' || !/^[0-9a-f]{64}$/i.test(hmac)) return wrongHmac(hmac, at)
  if (!isShortText(id)) return notAllowed([...at, 'id'], id, TEXT_ALLOWED)
  if (organisation !== undefined && !isShortText(organisation)) {
    return notAllowed([...at, 'organisation'], organisation, TEXT_ALLOWED)
  }
  if (tier === undefined || isShortText(tier)) return undefined
  return notAllowed([...at, 'tier'], tier, TEXT_ALLOWED)
}

/** A text in place of an HMAC may be the key itself, and is not repeated. */
function wrongHmac(hmac: unknown, at: readonly number[]): PolicyIssue {
  const path = [...at, 'hmac']
  if (typeof hmac !== 'string') return notAllowed(path, hmac, HMAC_ALLOWED)
  const text = `a text of ${hmac.length} characters is not allowed; allowed: ${HMAC_ALLOWED}`
  return { path, text }
}

function isShortText(value: unknown): value is string {
  if (typeof value !== 'string' || value.length > TEXT_LENGTH_MAX) return false
  // Lone surrogates have no UTF-8: two ids could become one.
  return value !== '' && value.isWellFormed()
}

/** https://jsonlines.org: one object per line; empty lines are passed over. */
function addLines(content: Buffer, keys: Keys): void {
  let line = 0
  for (let start = 0; start < content.length && !keys.isFull; line++) {
    const feedAt = content.indexOf(LINE_FEED, start)
    const end = feedAt === -1 ? content.length : feedAt
    const text = end === start ? '' : content.toString('utf8', start, end).trim()
    if (text !== '') addLine(text, { line: line + 1, column: 1 }, keys)
    start = end + 1
  }
}

function addLine(text: string, position: Position, keys: Keys): void {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    keys.refuse(position, { path: [], text: 'the line is not a JSON object' })
    return
  }
  keys.add(value, [], () => position)
}

/**
 * Parses some entries at a time. An entry begins with a hyphen in the column of the first one; what
 * is nested in it, or goes on in the next line, is indented further.
 */
function addList(text: string, keys: Keys): void {
  const indent = /^( *)- /m.exec(text)?.[1] ?? ''
  let line = 1
  let count = 0
  for (const piece of piecesOf(text, `\n${indent}- `)) {
    if (keys.isFull) return
    count += addPiece(piece, { line, count }, keys)
    line += lineFeeds(piece)
  }
}

function* piecesOf(text: string, separator: string): Generator<string> {
  let start = 0
  while (start < text.length) {
    const at = text.indexOf(separator, start + PIECE_BYTES)
    const end = at === -1 ? text.length : at + 1
    yield text.slice(start, end)
    start = end
  }
}

/** Returns how many entries there are. `before` counts the lines and entries in front of it. */
function addPiece(
  text: string,
  before: { readonly line: number; readonly count: number },
  keys: Keys,
): number {
  const inFile = ({ line, column }: Position) => ({ line: line + before.line - 1, column })
  if (Buffer.byteLength(text) > YAML_BYTES_MAX) {
    const issue = `has an entry of more than ${YAML_BYTES_MAX} bytes; begin each in its own line`
    keys.refuse(inFile({ line: 1, column: 1 }), { path: [], text: issue })
    return 0
  }
  const yaml = parseYaml(text)
  if (!yaml.ok) {
    keys.refuse(inFile(yaml.position), { path: [], text: yaml.text })
    return 0
  }
  const { value = [] } = yaml
  if (!Array.isArray(value)) {
    keys.refuse(inFile({ line: 1, column: 1 }), notAllowed([], value, 'a list of keys'))
    return 0
  }
  const positionOf = (issue: PolicyIssue) => {
    const [at, ...rest] = issue.path
    return inFile(yaml.positionOf({ ...issue, path: [Number(at) - before.count, ...rest] }))
  }
  for (const [at, entry] of value.entries()) keys.add(entry, [before.count + at], positionOf)
  return value.length
}

function lineFeeds(text: string): number {
  let count = 0
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) count += 1
  return count
}

function atStart(file: string, text: string): PolicyProblem {
  return problemAt(file, { line: 1, column: 1 }, { path: [], text })
}
