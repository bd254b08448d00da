/**
 * From a counter to its key in Redis: the prefix and a digest of fixed length. Nothing that a
 * client supplies reaches a key raw, so that no text can change its slot, look like another key, or
 * make it long.
 */

import { hash } from 'node:crypto'
import type { AlgorithmName } from '../../algorithms/algorithm.ts'
import type { Counter } from '../store.ts'

/**
 * 72 bits: with a hundred million keys at a time, the chance that any two share a counter is one in
 * a million; and with the prefix `tg` a key fits 16 bytes in the server's memory.
 */
const DIGEST_LENGTH = 12

/**
 * A digest takes five times as long as a look-up. Two generations of this many keys are kept, some
 * 150 bytes each: the keys in use are found in the younger, and the older is dropped when that is
 * full.
 */
const GENERATION_KEYS_MAX = 32_768

/**
 * A key is kept from the second time on that it comes, so that a flood of keys that come once takes
 * no memory and drops nothing of use. So many are recognised, 4 bytes each, in sets of some: with a
 * single place for each, two that share it would put each other out for ever.
 */
const SEEN_MAX = 2 ** 16
const SEEN_SET = 4

/** An odd number near 2^32 divided by the golden ratio, as hash tables use it. */
const SPREAD = 0x9e3779b1

/** Names of limits are few. If they are made up without end, keys of more are not kept. */
const SCOPES_MAX = 1_024

/** The keys of the counters of one limit that are known. */
export interface KeyScope {
  /** What the texts of its counters begin with. */
  readonly start: string
  readonly isKept: boolean
  young: Map<string, string>
  old: Map<string, string>
}

export class RedisKeys {
  readonly #prefix: string
  readonly #scopes = new Map<string, KeyScope>()
  /** In the younger generation of all scopes. */
  #youngCount = 0
  /** Parts of digests, each where another part leads to. */
  readonly #seen = new Int32Array(SEEN_MAX)

  constructor(prefix: string) {
    this.#prefix = prefix
  }

  ofCounter({ name, limit, key, within }: Counter): string {
    return this.of(name, limit.algorithm, key, within)
  }

  of(name: string, algorithm: AlgorithmName, key: string, within?: string): string {
    if (within === undefined) return this.in(this.scope(name, algorithm), key)
    // In a scope of its own; the length tells where the first part ends.
    const scope = this.#scopeOf(`within\0${algorithm}\0${name}\0`, `${algorithm}\0${name}\0`)
    return this.#find(scope, `${within.length}:${within}${key}`, key, within)
  }

  /** Names and algorithms contain no NUL, so that different counters have different texts. */
  scope(name: string, algorithm: AlgorithmName): KeyScope {
    const start = `${algorithm}\0${name}\0`
    return this.#scopeOf(start, start)
  }

  /** The same as `of`, without the time that it takes to find the scope. */
  in(scope: KeyScope, key: string): string {
    return this.#find(scope, key, key, undefined)
  }

  #find(scope: KeyScope, label: string, key: string, within: string | undefined): string {
    const known = scope.young.get(label)
    if (known !== undefined) return known
    const old = scope.old.get(label)
    const made = old ?? redisKey(this.#prefix, scope.start + key, within)
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

  /** Whether a key has come lately; it has from now on. One of millions is taken for another. */
  #isSeen(key: string): boolean {
    const seen = this.#seen
    // Some characters have the same six bits, so that they have to be spread.
    const place = Math.imul(bitsOf(key, key.length - 5, 5), SPREAD) >>> 16
    const first = (place * SEEN_SET) % SEEN_MAX
    const part = bitsOf(key, key.length - DIGEST_LENGTH, 5)
    for (let at = first; at < first + SEEN_SET; at++) if (seen[at] === part) return true
    // The one that came first of the set makes room.
    seen.copyWithin(first, first + 1, first + SEEN_SET)
    seen[first + SEEN_SET - 1] = part
    return false
  }
}

/** Bits of some characters of a digest, six of each. */
function bitsOf(key: string, from: number, length: number): number {
  let bits = 0
  for (let at = from; at < from + length; at++) bits = (bits << 6) | (key.charCodeAt(at) & 63)
  return bits
}

/** Counters within the same text have the same hash tag, and so lie in the same slot. */
export function redisKey(prefix: string, text: string, within?: string): string {
  const tag = within === undefined ? '' : `{${digest(within)}}`
  return prefix + tag + digest(text)
}

/** UTF-8 has one text for all lone surrogates, so of these the UTF-16 code units are taken. */
function digest(text: string): string {
  const bytes = text.isWellFormed() ? text : Buffer.from(`\uffff${text}`, 'utf16le')
  return hash('sha1', bytes, 'base64url').slice(0, DIGEST_LENGTH)
}
