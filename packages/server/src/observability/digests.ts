/**
 * Keyed digests of keys, clients and addresses, for everything that leaves the process for people:
 * logs, top lists and traces. One function for all of them, so that a digest in one place is found
 * in the others. Without the secret, an IPv4 address cannot be found by trying all of them.
 */

import { createHmac } from 'node:crypto'

/** Returns such as `hmac-sha256:4f1d…`. */
export type Digest = (text: string) => string

/** 64 bits distinguish clients, and reveal nothing without the secret. */
const DIGEST_LENGTH = 16

/** A digest takes 2 µs, and lines are mostly about few clients. About 100 KB. */
const KNOWN_MAX = 1_024

/** Longer texts are not kept. */
const KNOWN_LENGTH_MAX = 128

/** Processes with the same secret have the same digests. */
export function keyedDigest(secret: string | Buffer): Digest {
  const known = new Map<string, string>()
  return (text) => {
    const found = known.get(text)
    if (found !== undefined) return found
    const hex = createHmac('sha256', secret).update(text).digest('hex')
    const made = `hmac-sha256:${hex.slice(0, DIGEST_LENGTH)}`
    if (known.size >= KNOWN_MAX) known.clear()
    if (text.length <= KNOWN_LENGTH_MAX) known.set(text, made)
    return made
  }
}
