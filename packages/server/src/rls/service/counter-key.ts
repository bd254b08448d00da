/**
 * The key of a counter: every part with its length before it, so that no two descriptors have the
 * same. It is documented, because an application that uses the library can have the same counters.
 */

import { createHash } from 'node:crypto'
import type { DescriptorNode, Entry } from '../config/descriptor-tree.ts'

/** What the library takes as a key; longer ones are replaced by their digest. */
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
    // A star is no digit, so that a pattern is not the same as a value that looks like it.
    key += shared === undefined ? part(entry.key) + part(entry.value) : `*${part(shared)}`
  }
  if (key.length <= KEY_LENGTH_MAX) return key
  return `sha256:${createHash('sha256').update(key, 'utf16le').digest('base64url')}`
}

function part(text: string): string {
  return `${text.length}:${text}`
}
