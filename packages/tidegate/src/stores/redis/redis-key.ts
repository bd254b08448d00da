/**
 * From a counter to its key in Redis: the prefix and a digest of fixed length. Nothing that a
 * client supplies reaches a key raw, so that no text can change its slot, look like another key, or
 * make it long. Digests are of the UTF-16 code units, because UTF-8 has one text for all lone
 * surrogates.
 */

import { createHash } from 'node:crypto'
import type { AlgorithmName } from '../../algorithms/algorithm.ts'
import type { Counter } from '../store.ts'

/**
 * 72 bits: with a hundred million keys at a time, the chance that any two share a counter is one in
 * a million; and with the prefix `tg` a key fits 16 bytes in the server's memory.
 */
const DIGEST_LENGTH = 12

/**
 * A digest takes a microsecond, a look-up a twentieth of it. Two generations of this many keys are
 * kept: the keys in use are found in the younger, and the older is dropped when that is full.
 */
const GENERATION_KEYS_MAX = 32_768

export class RedisKeys {
  readonly #prefix: string
  #young = new Map<string, string>()
  #old = new Map<string, string>()

  constructor(prefix: string) {
    this.#prefix = prefix
  }

  ofCounter({ name, limit, key, within }: Counter): string {
    return this.of(name, limit.algorithm, key, within)
  }

  /** Names and algorithms contain no NUL, so that different counters have different texts. */
  of(name: string, algorithm: AlgorithmName, key: string, within?: string): string {
    const text = `${algorithm}\0${name}\0${key}`
    if (within === undefined) return this.#cached(text, text, undefined)
    // Starts with a digit, as no algorithm does; the length tells where the first part ends.
    return this.#cached(`${within.length}:${within}${text}`, text, within)
  }

  #cached(label: string, text: string, within: string | undefined): string {
    const known = this.#young.get(label)
    if (known !== undefined) return known
    const made = this.#old.get(label) ?? redisKey(this.#prefix, text, within)
    if (this.#young.size >= GENERATION_KEYS_MAX) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(label, made)
    return made
  }
}

/** Counters within the same text have the same hash tag, and so lie in the same slot. */
export function redisKey(prefix: string, text: string, within?: string): string {
  const tag = within === undefined ? '' : `{${digest(within)}}`
  return prefix + tag + digest(text)
}

function digest(text: string): string {
  const whole = createHash('sha1').update(text, 'utf16le').digest('base64url')
  return whole.slice(0, DIGEST_LENGTH)
}
