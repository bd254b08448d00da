/**
 * YAML as a policy may use it: plain mappings, lists and scalars in one document of limited size
 * and depth. Anchors, aliases, tags, merge keys, directives and names that mean something to
 * JavaScript are refused. The tokens are looked at first, because the parser takes long for what is
 * hostile.
 *
 * https://yaml.org/spec/1.2.2/
 */

import {
  CST,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  type ParsedNode,
  parseDocument,
  type YAMLMap,
} from 'yaml'
import { type PolicyIssue, type PolicyPath, show } from './policy-problem.ts'

export interface Position {
  /** From 1. */
  readonly line: number
  readonly column: number
}

export type YamlResult =
  | {
      readonly ok: true
      readonly value: unknown
      /** Where a value stands, or the name of its field; where it is missing, what surrounds it. */
      positionOf(issue: PolicyIssue): Position
    }
  | { readonly ok: false; readonly position: Position; readonly text: string }

/** The policies of large sites have a tenth of that; parsing takes time and memory by the byte. */
export const YAML_BYTES_MAX = 256 * 1024

/**
 * Spaces included. Enough for all limits and two thousand overrides, and few enough that also a
 * text in which each of them is a mistake is refused within a second.
 */
const TOKENS_MAX = 100_000

/** A policy has six levels. */
const DEPTH_MAX = 20

/** Each wrong one is an error for the parser to describe. */
const ESCAPES_MAX = 2_000

const ONE_DOCUMENT = 'only one document is allowed'

const unsafeNames = ['__proto__', 'constructor', 'prototype', '<<']

/** Stands in front of a scalar among the tokens. */
const SCALAR_MARK = '\u001f'

class Refusal {
  readonly offset: number
  readonly text: string

  constructor(offset: number, text: string) {
    this.offset = offset
    this.text = text
  }
}

export function parseYaml(text: string): YamlResult {
  const refusal = checkText(text) ?? checkTokens(text)
  if (refusal !== undefined) return refused(text, refusal)
  const document = parseDocument(text, {
    schema: 'core',
    version: '1.2',
    merge: false,
    resolveKnownTags: false,
    stringKeys: true,
    // Both take the square of the size of the text; names are compared below.
    uniqueKeys: false,
    prettyErrors: false,
    // Below this, a second document would be passed over.
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
    positionOf: (issue) => positionAt(text, offsetOf(contents, issue)),
  }
}

function refused(text: string, { offset, text: reason }: Refusal): YamlResult {
  return { ok: false, position: positionAt(text, offset), text: reason }
}

function checkText(text: string): Refusal | undefined {
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

function checkTokens(text: string): Refusal | undefined {
  let offset = 0
  let tokens = 0
  let depth = 0
  let documents = 0
  /** In one line: `- - - x` and `? ? ? x` nest as brackets do. */
  let indicators = 0
  let isScalarNext = false
  for (const token of new Lexer().lex(text)) {
    if (++tokens > TOKENS_MAX) return new Refusal(offset, 'the file has too many parts')
    const type: string | null = isScalarNext ? 'scalar' : CST.tokenType(token)
    isScalarNext = token === SCALAR_MARK && type !== 'scalar'
    const reason = type === null ? undefined : bannedTokens[type]
    if (reason !== undefined) return new Refusal(offset, reason)
    if (type === 'flow-seq-start' || type === 'flow-map-start') depth++
    if (type === 'flow-seq-end' || type === 'flow-map-end') depth--
    if (type === 'newline') indicators = 0
    if (type === 'seq-item-ind' || type === 'explicit-key-ind') indicators++
    if (depth + indicators > DEPTH_MAX) return new Refusal(offset, 'it is nested too deep')
    if (type === 'doc-start' && ++documents > 1) return new Refusal(offset, ONE_DOCUMENT)
    offset += isOfText(token, type) ? token.length : 0
  }
  return undefined
}

/** Some tokens are marks of the lexer; the text itself has no control characters. */
function isOfText(token: string, type: string | null): boolean {
  return type !== 'doc-mode' && type !== 'flow-error-end' && token !== SCALAR_MARK
}

/** The value as plain JavaScript, or the first thing in it that is not allowed. */
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
    if (Object.hasOwn(map, name))
      return new Refusal(offset, `the name ${show(name)} stands there twice`)
    const inner = plain(value, depth + 1)
    if (inner instanceof Refusal) return inner
    map[name] = inner
  }
  return map
}

function offsetOf(contents: ParsedNode | null, { path, isAboutKey = false }: PolicyIssue): number {
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

function childOf(node: ParsedNode | null, part: PolicyPath[number]) {
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

/** The parser's messages begin with a capital, end with or without a full stop, and may be long. */
function sentence(message: string): string {
  const [line = ''] = message.split('\n')
  const text = line.replace(/[.:]$/, '')
  return show(text.charAt(0).toLowerCase() + text.slice(1)).slice(1, -1)
}
