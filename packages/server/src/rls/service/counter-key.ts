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

/** The descriptor of a key. */
export interface CountedDescriptor {
  readonly domain: string
  /** Such as `user=ada`, one for each entry; a shared pattern has its label. */
  readonly entries: readonly string[]
}

/** The domain of a key; undefined for a key that was too long. */
export function domainOf(prefix: string, key: string): string | undefined {
  return partsOf(key, prefix === '' ? 1 : 2)?.at(-1)?.text
}

/** The opposite of `counterKey`; undefined for a key that was too long. */
export function descriptorOf(prefix: string, key: string): CountedDescriptor | undefined {
  const parts = partsOf(key, KEY_LENGTH_MAX)
  const [domain, ...rest] = (prefix === '' ? parts : parts?.slice(1)) ?? []
  if (domain === undefined) return undefined
  const entries: string[] = []
  for (let at = 0; at < rest.length; at++) {
    const { text, isPattern } = rest[at] as KeyPart
    // A pattern has its key and its value in one part.
    if (isPattern) entries.push(text)
    else {
      at += 1
      entries.push(`${text}=${rest[at]?.text ?? ''}`)
    }
  }
  return { domain: domain.text, entries }
}

interface KeyPart {
  readonly text: string
  readonly isPattern: boolean
}

function partsOf(key: string, countMax: number): readonly KeyPart[] | undefined {
  const parts: KeyPart[] = []
  for (let at = 0; at < key.length && parts.length < countMax; ) {
    const isPattern = key[at] === '*'
    const from = isPattern ? at + 1 : at
    const colon = key.indexOf(':', from)
    const length = Number(key.slice(from, colon))
    if (colon < 0 || !Number.isSafeInteger(length)) return undefined
    at = colon + 1 + length
    parts.push({ text: key.slice(colon + 1, at), isPattern })
  }
  return parts
}
