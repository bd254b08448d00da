/**
 * A configuration file as values with their lines, within caps on its size, its depth and the
 * values that aliases expand to. As in the reference, names are checked one by one, wherever they
 * stand; of duplicate names the last one counts, and of several documents the first.
 */

import {
  type Alias,
  type Document,
  isAlias,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseAllDocuments,
  type YAMLMap,
  type Scalar as YamlNode,
} from 'yaml'
import { checkTokens } from '../../config/yaml/check-tokens.ts'
import { RlsConfigError } from './config-error.ts'
import { resolveScalar, type ScalarTag } from './yaml-scalar.ts'

export type YamlValue = YamlScalar | YamlMap | YamlList

export interface YamlScalar {
  readonly kind: 'scalar'
  readonly tag: ScalarTag
  /** The text of the file, so that `value: 007` is `007`. */
  readonly text: string
  readonly value: string | number | boolean | null
  readonly line: number
}

export interface YamlMap {
  readonly kind: 'map'
  readonly fields: ReadonlyMap<string, YamlValue>
  readonly line: number
}

export interface YamlList {
  readonly kind: 'list'
  readonly items: readonly YamlValue[]
  readonly line: number
}

export interface YamlFile {
  readonly root: YamlMap
  /** Texts that the reference accepts silently and that are probably mistakes. */
  readonly warnings: readonly string[]
}

/** Larger than any file that people write; the time of the parser grows with the length. */
const FILE_LENGTH_MAX = 1_048_576

/** Twice the tokens of an ordinary file of the largest size. */
const TOKENS_MAX = 400_000

/** Counted after aliases are replaced: as many as there may be tokens. */
const VALUES_MAX = 400_000

/** Ten times as deep as people nest descriptors. */
const DEPTH_MAX = 64

const caps = { tokensMax: TOKENS_MAX, depthMax: DEPTH_MAX }

const knownKeys = new Set([
  ...['domain', 'key', 'value', 'descriptors', 'rate_limit', 'unit', 'requests_per_unit'],
  ...['unlimited', 'shadow_mode', 'quota_mode', 'name', 'replaces', 'detailed_metric'],
  ...['value_to_metric', 'share_threshold', 'metadata'],
  // Extensions of Tidegate.
  ...['algorithm', 'per', 'burst', 'calendar', 'time_zone', 'on_store_error', 'accuracy'],
  ...['key_prefix', 'value_prefix', 'value_cidr', 'per_value'],
])

/** Names below these are chosen by the user. */
const freeKeys = new Set(['metadata', 'per_value'])

export function parseYamlFile(file: string, text: string): YamlFile {
  checkSize(file, text)
  const lines = new LineCounter()
  const [document, ...others] = documentsOf(file, text, lines)
  if (document === undefined) return { root: emptyMap, warnings: [] }
  const reader = new Reader(file, lines)
  if (others.length > 0) reader.warnings.push('only the first of several documents counts')
  const root = reader.read(document.contents, 0)
  if (root.kind === 'scalar' && root.tag === 'null') return { root: emptyMap, warnings: [] }
  if (root.kind !== 'map') {
    const message = unmarshalText(root, 'map[interface {}]interface {}')
    throw new RlsConfigError(file, `error loading config file: yaml: unmarshal errors:\n${message}`)
  }
  checkKeys(file, root)
  return { root, warnings: reader.warnings }
}

/** One line of an error as Go's yaml.v2 has it. */
export function unmarshalText(value: YamlValue, type: string): string {
  return `  line ${value.line}: cannot unmarshal ${shown(value)} into ${type}`
}

const emptyMap: YamlMap = { kind: 'map', fields: new Map(), line: 1 }

function shown(value: YamlValue): string {
  if (value.kind !== 'scalar') return value.kind === 'map' ? '!!map' : '!!seq'
  const { tag, text } = value
  return `!!${tag} \`${text.length > 10 ? `${text.slice(0, 7)}...` : text}\``
}

function checkSize(file: string, text: string): void {
  const tooLong = `${text.length} characters, but at most ${FILE_LENGTH_MAX} are allowed`
  const reason = text.length > FILE_LENGTH_MAX ? tooLong : checkTokens(text, caps)?.reason
  if (reason === undefined) return
  throw new RlsConfigError(file, `error loading config file: ${reason}`)
}

function documentsOf(file: string, text: string, lineCounter: LineCounter): Document[] {
  const options = {
    schema: 'failsafe',
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: 'silent',
  } as const
  // If the last line has no end, the parser does not notice that a quote is not closed.
  const whole = text.endsWith('\n') ? text : `${text}\n`
  const parsed = parseAllDocuments(whole, { ...options, lineCounter })
  const documents = Array.isArray(parsed) ? (parsed as Document[]) : []
  const [error] = documents[0]?.errors ?? []
  if (error === undefined) return documents
  const { line } = lineCounter.linePos(error.pos[0])
  const isUnclosed = /^Missing closing .quote/.test(error.message)
  const reason = isUnclosed ? 'found unexpected end of stream' : error.message.split('\n')[0]
  const message = `yaml: line ${line}: ${reason}`
  throw new RlsConfigError(file, `error loading config file: ${message}`)
}

class Reader {
  readonly warnings: string[] = []
  readonly #file: string
  readonly #lines: LineCounter
  readonly #anchors = new Map<string, Node>()
  /** Nodes that are being read, to notice an alias that contains itself. */
  readonly #open = new Set<unknown>()
  #values = 0

  constructor(file: string, lines: LineCounter) {
    this.#file = file
    this.#lines = lines
  }

  /** Below a free name, all names are free, and keep the text of the file. */
  read(node: unknown, depth: number, isFree = false): YamlValue {
    if (depth > DEPTH_MAX) throw this.#error('nested too deep')
    if (++this.#values > VALUES_MAX) throw this.#error('document contains excessive aliasing')
    if (isAlias(node)) return this.read(this.#target(node), depth + 1, isFree)
    const line = this.#lineOf(node)
    if (!isNode(node)) return { kind: 'scalar', tag: 'null', text: '', value: null, line }
    if ('anchor' in node && node.anchor !== undefined) this.#anchors.set(node.anchor, node)
    if (isScalar(node)) return scalarOf(node, line)
    this.#open.add(node)
    const value = isSeq(node)
      ? this.#list(node.items, line, depth, isFree)
      : this.#map(node as YAMLMap, line, depth, isFree)
    this.#open.delete(node)
    return value
  }

  #list(items: readonly unknown[], line: number, depth: number, isFree: boolean): YamlList {
    return { kind: 'list', items: items.map((item) => this.read(item, depth + 1, isFree)), line }
  }

  #map({ items }: YAMLMap, line: number, depth: number, isFree: boolean): YamlMap {
    const fields = new Map<string, YamlValue>()
    for (const { key, value } of items) {
      const name = this.#nameOf(key, isFree)
      const inner = this.read(value, depth + 1, isFree || freeKeys.has(name))
      if (name === '<<') this.#merge(fields, inner)
      else {
        if (fields.has(name))
          this.warnings.push(`line ${this.#lineOf(key)}: '${name}' is duplicated`)
        fields.set(name, inner)
      }
    }
    return { kind: 'map', fields, line }
  }

  #nameOf(key: unknown, isFree: boolean): string {
    const scalar = isScalar(key) ? scalarOf(key, 0) : undefined
    if (scalar !== undefined && (isFree || scalar.tag === 'str')) return scalar.text
    const text = scalar === undefined ? 'a list or map' : (scalar.value ?? '<nil>')
    throw new RlsConfigError(this.#file, `config error, key is not of type string: ${text}`)
  }

  /** Merges the fields of `<<` as if they were written in its place. */
  #merge(fields: Map<string, YamlValue>, value: YamlValue): void {
    const maps = value.kind === 'list' ? [...value.items].reverse() : [value]
    for (const map of maps) {
      if (map.kind !== 'map') {
        throw this.#error('map merge requires map or sequence of maps as the value')
      }
      for (const [name, inner] of map.fields) fields.set(name, inner)
    }
  }

  #target({ source }: Alias): Node {
    const target = this.#anchors.get(source)
    if (target === undefined) throw this.#error(`unknown anchor '${source}' referenced`)
    if (this.#open.has(target)) throw this.#error(`anchor '${source}' value contains itself`)
    return target
  }

  #lineOf(node: unknown): number {
    const range = isNode(node) ? node.range : undefined
    return range === undefined || range === null ? 1 : this.#lines.linePos(range[0]).line
  }

  #error(text: string): RlsConfigError {
    return new RlsConfigError(this.#file, `error loading config file: yaml: ${text}`)
  }
}

function scalarOf(node: YamlNode, line: number): YamlScalar {
  const text = typeof node.value === 'string' ? node.value : ''
  const isText = node.type !== 'PLAIN' || node.tag === 'tag:yaml.org,2002:str'
  const isEmpty = node.value === null || node.value === undefined
  if (isText && !isEmpty) return { kind: 'scalar', tag: 'str', text, value: text, line }
  return { kind: 'scalar', text, line, ...resolveScalar(text) }
}

function checkKeys(file: string, { fields }: YamlMap): void {
  for (const [key, value] of fields) {
    if (!knownKeys.has(key)) throw new RlsConfigError(file, `config error, unknown key '${key}'`)
    if (freeKeys.has(key)) continue
    if (value.kind === 'list') {
      for (const item of value.items) {
        if (item.kind === 'map') checkKeys(file, item)
        else if (key !== 'value_cidr') throw notMap(file, item)
      }
    } else if (value.kind === 'map') checkKeys(file, value)
    else if (value.tag === 'float') throw new RlsConfigError(file, 'error checking config')
  }
}

function notMap(file: string, item: YamlValue): RlsConfigError {
  const message = `config error, yaml file contains list of type other than map: ${goText(item)}`
  return new RlsConfigError(file, message)
}

/** Formats a value as `%v` of Go does. */
function goText(value: YamlValue): string {
  if (value.kind === 'list') return `[${value.items.map(goText).join(' ')}]`
  if (value.kind === 'scalar') return String(value.value ?? '<nil>')
  const fields = [...value.fields].map(([name, inner]) => `${name}:${goText(inner)}`)
  return `map[${fields.join(' ')}]`
}
