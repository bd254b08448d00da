/**
 * From a request to the key of a limit. Different values never become the same key: the parts of a
 * composite carry their lengths, and keys of a fallback are marked, so that nobody who is counted
 * by an address can name a key that is somebody else's. Long values become a digest.
 */

import { createHash } from 'node:crypto'
import { ipKey, parseIp } from 'tidegate/http'
import type { FallbackSection, KeyPart, KeySection, LimitSection } from './limits-section.ts'
import type { RequestFacts } from './request-facts.ts'

/** What a key may need besides the request itself. */
export interface KeySettings {
  readonly region: string | undefined
  readonly ipv6Prefix: number
}

export interface KeyPlan {
  /** The key, then those to take where it is missing, in this order. */
  readonly alternatives: readonly KeyAlternative[]
  /** What becomes of a request that has none of them. */
  readonly end: 'deny' | 'skip'
  readonly needsTier: boolean
}

export interface KeyAlternative {
  /** As it stands in the policy, such as `apiKey` or `[organisation, path]`. */
  readonly label: string
  readonly parts: number
  /** The key of a request; undefined where a part of it is missing. */
  read(facts: RequestFacts, tier: string, route: string): string | undefined
  /** The same key from its parts, as overrides and the decision API name them. */
  fromParts(parts: readonly string[]): string
}

type Read = KeyAlternative['read']

/** Longer parts are kept as a digest: identifiers are shorter, and each key is kept. */
const PART_LENGTH_MAX = 128

const KEY_LENGTH_MAX = 512

/** Begins digests and keys of fallbacks; a part that begins with it becomes a digest as well. */
const MARK = '~'

export function planKey(
  { key, otherwise }: Pick<LimitSection, 'key' | 'otherwise'>,
  settings: KeySettings,
): KeyPlan {
  const { keys, end } = chain(key, otherwise ?? 'deny')
  return {
    alternatives: keys.map((one, at) => alternative(one, at, settings)),
    end,
    needsTier: keys.flat().includes('tier'),
  }
}

/** The first of the alternatives that the request has. */
export function readKey(
  { alternatives }: KeyPlan,
  facts: RequestFacts,
  tier: string,
  route: string,
): string | undefined {
  for (const alternative of alternatives) {
    const key = alternative.read(facts, tier, route)
    if (key !== undefined) return key
  }
  return undefined
}

/** Whether every request has it. */
export function isCertain(part: KeyPart): boolean {
  return ['path', 'method', 'route', 'region', 'tier', 'everyone'].some((name) => name === part)
}

function chain(
  key: KeySection,
  otherwise: FallbackSection,
): { readonly keys: readonly (readonly KeyPart[])[]; readonly end: 'deny' | 'skip' } {
  const parts = Array.isArray(key) ? key : [key]
  if (otherwise === 'deny' || otherwise === 'skip') return { keys: [parts], end: otherwise }
  const isChain = typeof otherwise === 'object' && 'key' in otherwise
  const next = isChain ? chain(otherwise.key, otherwise.otherwise) : chain(otherwise, 'deny')
  return { keys: [parts, ...next.keys], end: next.end }
}

function alternative(parts: readonly KeyPart[], at: number, settings: KeySettings): KeyAlternative {
  const reads = parts.map((part) => reader(part, settings))
  const mark = at === 0 ? '' : `${MARK}${at}:`
  const isComposite = parts.length > 1
  const [readFirst] = reads as [Read, ...Read[]]
  const readOne: Read = (facts, tier, route) => {
    const value = readFirst(facts, tier, route)
    return value === undefined || value === '' ? undefined : mark + bounded(value)
  }
  const readAll: Read = (facts, tier, route) => {
    let text = ''
    for (const read of reads) {
      const value = read(facts, tier, route)
      if (value === undefined || value === '') return undefined
      text += withLength(bounded(value))
    }
    return mark + shortened(text)
  }
  return {
    label: isComposite ? `[${parts.map(labelOf).join(', ')}]` : labelOf(parts[0] as KeyPart),
    parts: parts.length,
    read: isComposite ? readAll : readOne,
    fromParts(values) {
      const texts = values.map((value, index) => bounded(given(value, parts[index], settings)))
      return mark + (isComposite ? shortened(texts.map(withLength).join('')) : (texts[0] ?? ''))
    },
  }
}

function reader(part: KeyPart, { region, ipv6Prefix }: KeySettings): Read {
  if (typeof part === 'object') {
    if ('header' in part) return (facts) => facts.header(part.header)
    if ('claim' in part) return ({ identity }) => claimOf(identity.claims, part.claim)
    return ({ ip }) => addressOf(ip, part.ip)
  }
  switch (part) {
    case 'apiKey':
      return ({ identity }) => identity.apiKey
    case 'user':
      return ({ identity }) => identity.user
    case 'organisation':
      return ({ identity }) => identity.organisation
    case 'certificate':
      return ({ identity }) => identity.certificate
    case 'ip':
      return ({ ip }) => addressOf(ip, ipv6Prefix)
    case 'ip+userAgent':
      return (facts) => {
        const address = addressOf(facts.ip, ipv6Prefix)
        // An address has no space, so that this is unambiguous.
        return address && `${address} ${digest(facts.header('user-agent') ?? '').slice(0, 16)}`
      }
    case 'path':
      return ({ path }) => withoutParameters(path)
    case 'method':
      return ({ method }) => method
    case 'route':
      return (_facts, _tier, route) => route
    case 'region':
      return () => region
    case 'tier':
      return (_facts, tier) => tier
    case 'everyone':
      return () => 'everyone'
  }
}

/** The value of a claim as text; what is no scalar is no key. */
export function claimOf(
  claims: Readonly<Record<string, unknown>> | undefined,
  name: string,
): string | undefined {
  if (claims === undefined || !Object.hasOwn(claims, name)) return undefined
  const value = claims[name]
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined
}

/** An IPv4 has one spelling already; an IPv6 counts as its network. */
function addressOf(ip: string | undefined, prefix: number): string | undefined {
  if (ip === undefined || !ip.includes(':')) return ip
  const address = parseIp(ip)
  return address === undefined ? undefined : ipKey(address, prefix)
}

/** A part as somebody wrote it: an address may be in any spelling. */
function given(value: string, part: KeyPart | undefined, { ipv6Prefix }: KeySettings): string {
  const isObject = typeof part === 'object' && 'ip' in part
  const prefix = isObject ? part.ip : ipv6Prefix
  const address = part === 'ip' || isObject ? parseIp(value) : undefined
  return address === undefined ? value : ipKey(address, prefix)
}

function bounded(value: string): string {
  return value.length > PART_LENGTH_MAX || value.startsWith(MARK) ? digestText(value) : value
}

function shortened(key: string): string {
  return key.length > KEY_LENGTH_MAX ? digestText(key) : key
}

/** The length tells where the part ends, so that no two lists of parts are the same text. */
function withLength(part: string): string {
  return `${part.length}:${part}`
}

function digestText(text: string): string {
  return `${MARK}h:${digest(text)}`
}

/** Of the UTF-16 code units: UTF-8 has one text for all lone surrogates. */
function digest(text: string): string {
  return createHash('sha256').update(text, 'utf16le').digest('base64url')
}

function labelOf(part: KeyPart): string {
  if (typeof part === 'string') return part
  const [[name, value] = []] = Object.entries(part)
  return `{ ${name}: ${value} }`
}

/** Parameters of segments do not count for matching, and so make no other counter. */
function withoutParameters(path: string): string {
  return path.includes(';') ? path.replace(/;[^/]*/g, '') : path
}
