/**
 * From a counter to its key in Redis: the prefix and a digest of fixed length. Nothing that a
 * client supplies reaches a key raw, so that no text can change its slot, look like another key, or
 * make it long. On a cluster, a hash tag before the digest names its bucket, which the digest
 * decides.
 */

import type { AlgorithmName } from '../../algorithms/algorithm.ts'
import type { Counter } from '../store.ts'
import { sha1 } from './scripts/sha1.ts'

/**
 * 72 bits: with a hundred million keys at a time, the chance that any two share a counter is one in
 * a million; and with the prefix `tg` a key fits 16 bytes in the server's memory.
 */
const DIGEST_LENGTH = 12

/**
 * A digest takes five times as long as a look-up. Two generations of this many keys are kept, about
 * 150 bytes each: keys in use are in the younger, and the older is dropped when that is full.
 */
const GENERATION_KEYS_MAX = 32_768

/**
 * A key is kept from its second use on, so that a flood of keys that are used once takes no memory
 * and evicts nothing: with 200,000 keys in turn, a process takes 15 % less time per decision.
 * `SEEN_MAX` keys are recognised, 4 bytes each, in sets of `SEEN_SET`: with a single place per set,
 * two keys in it would evict each other forever.
 */
const SEEN_MAX = 2 ** 16
const SEEN_SET = 4

/** An odd number near 2^32 divided by the golden ratio, as hash tables use it. */
const SPREAD = 0x9e3779b1

/** The characters of a digest by their values: https://www.rfc-editor.org/rfc/rfc4648#section-5 */
const CHARACTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

/** Names of limits are few. If they are made up without end, keys of more are not kept. */
const SCOPES_MAX = 1_024

/** The keys of the counters of one limit that are known. */
export interface KeyScope {
  /** The prefix of the texts of its counters. */
  readonly start: string
  readonly isKept: boolean
  young: Map<string, string>
  old: Map<string, string>
}

export class RedisKeys {
  readonly #prefix: string
  /** The tags of the buckets; none on a single server. */
  readonly #tags: readonly string[]
  readonly #scopes = new Map<string, KeyScope>()
  /** The scope of the last counter: most stores have one limit. */
  #last:
    | { readonly name: string; readonly algorithm: AlgorithmName; readonly scope: KeyScope }
    | undefined
  /** In the younger generation of all scopes. */
  #youngCount = 0
  /** Parts of digests; another part of the digest is the index of its set. */
  readonly #seen = new Int32Array(SEEN_MAX)

  constructor(prefix: string, tags: readonly string[] = []) {
    this.#prefix = prefix
    this.#tags = tags
  }

  ofCounter({ name, limit, key, within }: Counter): string {
    const { algorithm } = limit
    if (within !== undefined) return this.of(name, algorithm, key, within)
    const last = this.#last
    if (last?.name === name && last.algorithm === algorithm) {
      return this.#find(last.scope, key, key, undefined)
    }
    const scope = this.scope(name, algorithm)
    this.#last = { name, algorithm, scope }
    return this.#find(scope, key, key, undefined)
  }

  of(name: string, algorithm: AlgorithmName, key: string, within?: string): string {
    if (within === undefined) return this.#find(this.scope(name, algorithm), key, key, undefined)
    // In a scope of its own; the length separates the two parts.
    const scope = this.#scopeOf(`within\0${algorithm}\0${name}\0`, `${algorithm}\0${name}\0`)
    return this.#find(scope, `${within.length}:${within}${key}`, key, within)
  }

  /** Names and algorithms contain no NUL, so that different counters have different texts. */
  scope(name: string, algorithm: AlgorithmName): KeyScope {
    const start = `${algorithm}\0${name}\0`
    return this.#scopeOf(start, start)
  }

  #find(scope: KeyScope, label: string, key: string, within: string | undefined): string {
    const known = scope.young.get(label)
    if (known !== undefined) return known
    const old = scope.old.get(label)
    const made = old ?? redisKey(this.#prefix, scope.start + key, within, this.#tags)
    if (!scope.isKept || (old === undefined && !this.#isSeen(made))) return made
    if (this.#youngCount >= GENERATION_KEYS_MAX) this.#age()
    scope.young.set(label, made)
    this.#youngCount++
    return made
  }

  #scopeOf(label: string, start: string): KeyScope {
    const known = this.#scopes.get(label)
    if (known !== undefined) return known
    const isKept = this.#scopes.size < SCOPES_MAX
    const scope: KeyScope = { start, isKept, young: new Map(), old: new Map() }
    if (isKept) this.#scopes.set(label, scope)
    return scope
  }

  #age(): void {
    for (const scope of this.#scopes.values()) {
      scope.old = scope.young
      scope.young = new Map()
    }
    this.#youngCount = 0
  }

  /** True if a key was used lately, and marks it as used. Collisions are one in millions. */
  #isSeen(key: string): boolean {
    const seen = this.#seen
    // Spread, because some characters have the same six bits.
    const place = Math.imul(bitsOf(key, key.length - 5, 5), SPREAD) >>> 16
    const first = (place * SEEN_SET) % SEEN_MAX
    const part = bitsOf(key, key.length - DIGEST_LENGTH, 5)
    for (let at = first; at < first + SEEN_SET; at++) if (seen[at] === part) return true
    // Evicts the oldest key of the set.
    seen.copyWithin(first, first + 1, first + SEEN_SET)
    seen[first + SEEN_SET - 1] = part
    return false
  }
}

/** Six bits of each of `length` characters of a digest. */
function bitsOf(key: string, from: number, length: number): number {
  let bits = 0
  for (let at = from; at < from + length; at++) bits = (bits << 6) | (key.charCodeAt(at) & 63)
  return bits
}

/** Counters within the same text have the same hash tag, and so lie in the same slot. */
export function redisKey(
  prefix: string,
  text: string,
  within?: string,
  tags: readonly string[] = [],
): string {
  const own = digest(text)
  if (within !== undefined) return `${prefix}{${digest(within)}}${own}`
  return prefix + bucketTag(own, tags) + own
}

/** The tag of the bucket that the first 12 bits of a digest decide; empty without buckets. */
export function bucketTag(digest: string, tags: readonly string[]): string {
  if (tags.length === 0) return ''
  const bits =
    CHARACTERS.indexOf(digest[0] as string) * 64 + CHARACTERS.indexOf(digest[1] as string)
  return tags[(bits * tags.length) >> 12] as string
}

/** UTF-8 has one text for all lone surrogates, so of these the UTF-16 code units are taken. */
function digest(text: string): string {
  return sha1(text.isWellFormed() ? text : utf16Bytes(`\uffff${text}`)).slice(0, DIGEST_LENGTH)
}

/** The lower byte of each code unit first. */
function utf16Bytes(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length * 2)
  const view = new DataView(bytes.buffer)
  for (let at = 0; at < text.length; at++) view.setUint16(at * 2, text.charCodeAt(at), true)
  return bytes
}
