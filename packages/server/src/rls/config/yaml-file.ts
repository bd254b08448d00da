/**
 * A configuration file as values with the lines on which they stand, within caps on its size, its
 * depth and on what aliases make of it. Names are checked as the reference does it: by themselves,
 * wherever they stand. Of a name that stands twice the last one counts, and of several documents
 * the first, as there.
 */

import {
  type Alias,
  type Document,
  isAlias,
  isNode,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  parseAllDocuments,
  type YAMLMap,
  type Scalar as YamlNode,
} from 'yaml'
import { RlsConfigError } from './config-error.ts'
import { resolveScalar, type ScalarTag } from './yaml-scalar.ts'

export type YamlValue = YamlScalar | YamlMap | YamlList

export interface YamlScalar {
  readonly kind: 'scalar'
  readonly tag: ScalarTag
  /** What was written, so that `value: 007` is `007`. */
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
  /** What the reference takes without a word, and nobody means. */
  readonly warnings: readonly string[]
}

/** Larger files are no configuration that people wrote; parsing takes time with their length. */
const FILE_LENGTH_MAX = 1_048_576

/** A file of that size has some 200,000. */
const TOKENS_MAX = 400_000

/** Values after aliases are replaced by what they stand for. */
const VALUES_MAX = 400_000

const DEPTH_MAX = 64

const knownKeys = new Set([
  ...['domain', 'key', 'value', 'descriptors', 'rate_limit', 'unit', 'requests_per_unit'],
  ...['unlimited', 'shadow_mode', 'quota_mode', 'name', 'replaces', 'detailed_metric'],
  ...['value_to_metric', 'share_threshold', 'metadata'],
  // Ours.
  ...['algorithm', 'per', 'burst', 'calendar', 'time_zone', 'on_store_error', 'accuracy'],
  ...['key_prefix', 'value_prefix', 'value_cidr', 'per_value'],
])

/** What is below these is the user's own. */
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

/** Before the parser, which takes long for what is hostile. */
function checkSize(file: string, text: string): void {
  const refuse = (reason: string) =>
    new RlsConfigError(file, `error loading config file: ${reason}`)
  if (text.length > FILE_LENGTH_MAX) {
    throw refuse(`${text.length} characters, but at most ${FILE_LENGTH_MAX} are allowed`)
  }
  let tokens = 0
  let depth = 0
  let indicators = 0
  for (const token of new Lexer().lex(text)) {
    if (++tokens > TOKENS_MAX) throw refuse('it has too many parts')
    if (token === '[' || token === '{') depth++
    else if (token === ']' || token === '}') depth--
    else if (token === '-' || token === '?') indicators++
    else if (token === '\n' || token === '\r\n') indicators = 0
    if (depth + indicators > DEPTH_MAX) throw refuse('it is nested too deep')
  }
}

function documentsOf(file: string, text: string, lineCounter: LineCounter): Document[] {
  const options = {
    schema: 'failsafe',
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: 'silent',
  } as const
  // Without an end of the last line, the parser misses that a quote is not closed.
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
  /** What is being read, to notice an alias of what is around it. */
  readonly #open = new Set<unknown>()
  #values = 0

  constructor(file: string, lines: LineCounter) {
    this.#file = file
    this.#lines = lines
  }

  /** Below a name that is free, all names are, and are what was written. */
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
          this.warnings.push(`line ${this.#lineOf(key)}: '${name}' stands twice`)
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

  /** `<<`, of which the fields stand as if they were written there. */
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

/** As `%v` of Go writes it. */
function goText(value: YamlValue): string {
  if (value.kind === 'list') return `[${value.items.map(goText).join(' ')}]`
  if (value.kind === 'scalar') return String(value.value ?? '<nil>')
  const fields = [...value.fields].map(([name, inner]) => `${name}:${goText(inner)}`)
  return `map[${fields.join(' ')}]`
}
