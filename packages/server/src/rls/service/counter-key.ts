/**
 * The key of a counter: every part is preceded by its length, so that different descriptors have
 * different keys. It is documented, because applications may share counters through the library.
 */

import { createHash } from 'node:crypto'
import type { DescriptorNode, Entry } from '../config/descriptor-tree.ts'

/** The library accepts keys up to this length; longer ones are replaced by their digest. */
const KEY_LENGTH_MAX = 340

export function counterKey(
  prefix: string,
  domain: string,
  entries: readonly Entry[],
  path: readonly DescriptorNode[],
): string {
  let key = prefix === '' ? part(domain) : part(prefix) + part(domain)
  for (const [at, entry] of entries.entries()) {
    const shared = path[at]?.sharedPattern
    // A length never starts with a star, so that a pattern differs from every value.
    key += shared === undefined ? part(entry.key) + part(entry.value) : `*${part(shared)}`
  }
  if (key.length <= KEY_LENGTH_MAX) return key
  return `sha256:${createHash('sha256').update(key, 'utf16le').digest('base64url')}`
}

function part(text: string): string {
  return `${text.length}:${text}`
}
