/**
 * From a counter to its key in Redis: the prefix and a digest of fixed length. Nothing that a
 * client supplies reaches a key raw, so that no text can change its slot, look like another key, or
 * make it long. Digests are of the UTF-16 code units, because UTF-8 has one text for all lone
 * surrogates.
 */

import { createHash } from 'node:crypto'
import type { AlgorithmName } from '../../algorithms/algorithm.ts'

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

  /** Names and algorithms contain no NUL, so that different counters have different texts. */
  of(name: string, algorithm: AlgorithmName, key: string): string {
    const text = `${algorithm}\0${name}\0${key}`
    const known = this.#young.get(text)
    if (known !== undefined) return known
    const made = this.#old.get(text) ?? redisKey(this.#prefix, text)
    if (this.#young.size >= GENERATION_KEYS_MAX) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(text, made)
    return made
  }
}

export function redisKey(prefix: string, text: string): string {
  const digest = createHash('sha1').update(text, 'utf16le').digest('base64url')
  return prefix + digest.slice(0, DIGEST_LENGTH)
}
