/**
 * The subset of YAML that a policy may use: plain mappings, lists and scalars in one document of
 * limited size and depth. Anchors, aliases, tags, merge keys, directives and names with a meaning
 * in JavaScript are refused.
 *
 * https://yaml.org/spec/1.2.2/
 */

import { isMap, isScalar, isSeq, type ParsedNode, parseDocument, type YAMLMap } from 'yaml'
import { show } from '../shown-text.ts'
import { checkTokens, type TextProblem } from './check-tokens.ts'

/** Names and indexes from the root to a value. */
export type ValuePath = readonly (string | number)[]

export interface ValuePlace {
  readonly path: ValuePath
  /** True for the name of the field instead of its value. */
  readonly isAboutKey?: boolean
}

export interface Position {
  /** From 1. */
  readonly line: number
  readonly column: number
}

export type YamlResult =
  | {
      readonly ok: true
      readonly value: unknown
      /** Returns the position of a value or of its name; if it is missing, of what surrounds it. */
      positionOf(place: ValuePlace): Position
    }
  | { readonly ok: false; readonly position: Position; readonly text: string }

/** Ten times the policy of a large site. Parsing takes time and memory for each byte. */
export const YAML_BYTES_MAX = 256 * 1024

/**
 * Spaces included. Enough for all limits and 2,000 overrides, and few enough that a text in which
 * every token is a mistake is refused within a second.
 */
const TOKENS_MAX = 100_000

/** A policy has six levels. */
const DEPTH_MAX = 20

/** The parser describes an error for each one that is wrong. */
const ESCAPES_MAX = 2_000

const ONE_DOCUMENT = 'only one document is allowed'

const unsafeNames = ['__proto__', 'constructor', 'prototype', '<<']

export function parseYaml(text: string): YamlResult {
  const refusal = checkText(text) ?? checkTokens(text, caps)
  if (refusal !== undefined) return refused(text, refusal)
  const document = parseDocument(text, {
    schema: 'core',
    version: '1.2',
    merge: false,
    resolveKnownTags: false,
    stringKeys: true,
    // Both take quadratic time; `plainMap` compares the names.
    uniqueKeys: false,
    prettyErrors: false,
    // At a lower level, a second document would be ignored.
    logLevel: 'error',
  })
  const [error] = [...document.errors, ...document.warnings]
  if (error !== undefined) {
    const reason = error.code === 'MULTIPLE_DOCS' ? ONE_DOCUMENT : sentence(error.message)
    return refused(text, new Refusal(error.pos[0], reason))
  }
  const { contents } = document
  const value = contents === null ? undefined : plain(contents, 1)
  if (value instanceof Refusal) return refused(text, value)
  return {
    ok: true,
    value,
    positionOf: (place) => positionAt(text, offsetOf(contents, place)),
  }
}

function refused(text: string, { offset, reason }: TextProblem): YamlResult {
  return { ok: false, position: positionAt(text, offset), text: reason }
}

function checkText(text: string): TextProblem | undefined {
  if (text.length > YAML_BYTES_MAX || Buffer.byteLength(text) > YAML_BYTES_MAX) {
    return new Refusal(0, `the file is too large; allowed: ${YAML_BYTES_MAX} bytes`)
  }
  let escapes = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 0x5c && ++escapes > ESCAPES_MAX) return new Refusal(at, 'too many backslashes')
    const isControl =
      (code < 0x20 && code !== 0x09 && code !== 0x0a && code !== 0x0d) || code === 0x7f
    if (isControl) return new Refusal(at, 'control characters are not allowed')
  }
  return undefined
}

const bannedTokens: Readonly<Record<string, string>> = {
  alias: 'aliases (*name) are not allowed; write it out',
  anchor: 'anchors (&name) are not allowed',
  tag: 'tags (!name) are not allowed; put a text in quotes',
  'directive-line': 'directives (%NAME) are not allowed',
}

const caps = {
  tokensMax: TOKENS_MAX,
  depthMax: DEPTH_MAX,
  banned: bannedTokens,
  secondDocument: ONE_DOCUMENT,
}

class Refusal implements TextProblem {
  readonly offset: number
  readonly reason: string

  constructor(offset: number, reason: string) {
    this.offset = offset
    this.reason = reason
  }
}

/** Returns the value as plain JavaScript, or the first part of it that is not allowed. */
function plain(node: ParsedNode | null, depth: number): unknown {
  if (node === null) return null
  if (depth > DEPTH_MAX) return new Refusal(node.range[0], 'it is nested too deep')
  if (isScalar(node)) return node.value
  if (isSeq(node)) {
    const list: unknown[] = []
    for (const item of node.items as ParsedNode[]) {
      const value = plain(item, depth + 1)
      if (value instanceof Refusal) return value
      list.push(value)
    }
    return list
  }
  if (isMap(node)) return plainMap(node as YAMLMap.Parsed, depth)
  return new Refusal(node.range[0], 'it is not allowed here')
}

function plainMap(node: YAMLMap.Parsed, depth: number): unknown {
  const map: Record<string, unknown> = {}
  for (const { key, value } of node.items) {
    const name = isScalar(key) ? key.value : undefined
    const offset = key?.range?.[0] ?? node.range[0]
    if (typeof name !== 'string') return new Refusal(offset, 'names of fields must be texts')
    if (unsafeNames.includes(name))
      return new Refusal(offset, `the name ${show(name)} is not allowed`)
    if (Object.hasOwn(map, name)) return new Refusal(offset, `duplicate name ${show(name)}`)
    const inner = plain(value, depth + 1)
    if (inner instanceof Refusal) return inner
    map[name] = inner
  }
  return map
}

function offsetOf(contents: ParsedNode | null, { path, isAboutKey = false }: ValuePlace): number {
  let node: ParsedNode | null = contents
  let offset = contents?.range[0] ?? 0
  for (const [at, part] of path.entries()) {
    const child = childOf(node, part)
    if (child === undefined) return offset
    const isKey = isAboutKey && at === path.length - 1
    offset = (isKey ? child.keyOffset : child.node?.range[0]) ?? child.keyOffset ?? offset
    node = child.node
  }
  return offset
}

function childOf(node: ParsedNode | null, part: ValuePath[number]) {
  if (isSeq(node) && typeof part === 'number') {
    const item = node.items[part]
    return item === undefined ? undefined : { node: item as ParsedNode, keyOffset: undefined }
  }
  if (!isMap(node)) return undefined
  const pair = (node as YAMLMap.Parsed).items.find(({ key }) => isScalar(key) && key.value === part)
  return pair === undefined ? undefined : { node: pair.value, keyOffset: pair.key.range?.[0] }
}

function positionAt(text: string, offset: number): Position {
  const before = text.slice(0, offset).split(/\r\n|\n|\r/)
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 }
}

/**
 * The parser's messages begin with a capital, end with or without a full stop, and may be long.
 * The text after a colon or an escape is a part of the file, which may be a secret.
 */
function sentence(message: string): string {
  const [line = ''] = message.split('\n')
  const text = line.replace(/(?<=\S):(\s.*)?$|\.$|(?<=escape sequence) .*$/, '')
  return show(text.charAt(0).toLowerCase() + text.slice(1)).slice(1, -1)
}
