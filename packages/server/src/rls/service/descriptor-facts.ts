/**
 * A descriptor as the facts of a request, so that the limits of a policy apply to it. Entries with
 * the words of a policy fill the facts of that name: `user`, `path` and so on. Every entry can also
 * be named as it is, as a descriptor entry or as a header.
 *
 * Envoy is trusted: entries count as verified, because its configuration decides what they carry.
 */

import { parseIp } from 'tidegate/http'
import type { Identity, RequestFacts } from '../../limits/request-facts.ts'
import type { DescriptorEntry } from '../wire/rate-limit-messages.ts'

/** The parts of an identity, and the entries that fill them. */
const identityEntries: ReadonlyArray<readonly [keyof Identity & string, string]> = [
  ['apiKey', 'apiKey'],
  ['user', 'user'],
  ['organisation', 'organisation'],
  ['organisation', 'organization'],
  ['certificate', 'certificate'],
  ['tier', 'tier'],
]

export function descriptorFacts(domain: string, entries: readonly DescriptorEntry[]): RequestFacts {
  const values = new Map<string, string>()
  const headers = new Map<string, string>()
  for (const { key, value } of entries) {
    // The first of several entries with one key counts.
    if (!values.has(key)) values.set(key, value)
    const name = key.toLowerCase()
    if (!headers.has(name)) headers.set(name, value)
  }
  const first = (...keys: readonly string[]) => {
    const key = keys.find((one) => values.has(one))
    return key === undefined ? undefined : values.get(key)
  }
  return {
    method: first('method', ':method') ?? '',
    path: pathOf(first('path', ':path') ?? ''),
    ip: addressOf(first('ip', 'remote_address')),
    identity: identityOf(values),
    header: (name) => headers.get(name),
    descriptor: { domain, entry: (key) => values.get(key) },
  }
}

function identityOf(values: ReadonlyMap<string, string>): Identity {
  const identity: Record<string, string> = {}
  for (const [part, key] of identityEntries) {
    const value = values.get(key)
    if (value !== undefined && value !== '') identity[part] ??= value
  }
  return identity
}

/** Envoy's `:path` has the query. */
function pathOf(text: string): string {
  const end = text.search(/[?#]/)
  return end < 0 ? text : text.slice(0, end)
}

/** Longer texts are not addresses and are not parsed. */
const ADDRESS_LENGTH_MAX = 64

function addressOf(text: string | undefined): string | undefined {
  if (text === undefined || text.length > ADDRESS_LENGTH_MAX) return undefined
  return parseIp(text)?.text
}
