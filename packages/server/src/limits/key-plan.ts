/**
 * From a request to the key of a limit. Different values never become the same key: the parts of a
 * composite carry their lengths, and keys of a fallback are marked, so that a client that is
 * counted by a fallback cannot choose the key of another client. Long values become a digest.
 */

import { createHash } from 'node:crypto'
import { ipKey, parseIp } from 'tidegate/http'
import type { FallbackSettings, KeyPart, KeySettings, LimitSettings } from './limit-settings.ts'
import { readPath } from './match/segment-texts.ts'
import type { RequestFacts } from './request-facts.ts'

/** Facts of the node that keys may contain. */
export interface KeyContext {
  readonly region: string | undefined
  readonly ipv6Prefix: number
}

export interface KeyPlan {
  /** The key, then its fallbacks, in this order. */
  readonly alternatives: readonly KeyAlternative[]
  /** For a request without any of them. */
  readonly end: 'deny' | 'skip'
  readonly needsTier: boolean
}

export interface KeyAlternative {
  /** As written in the policy, such as `apiKey` or `[organisation, path]`. */
  readonly label: string
  readonly parts: number
  /** The key of a request; undefined if a part of it is missing. */
  read(facts: RequestFacts, tier: string, route: string): string | undefined
  /** Makes the key from its parts, as overrides and the decision API name them. */
  fromParts(parts: readonly string[]): string
}

type Read = KeyAlternative['read']

/** Longer parts become a digest: identifiers are shorter, and every key takes memory. */
const PART_LENGTH_MAX = 128

/** Longer composite keys become a digest, for the same reason. */
const KEY_LENGTH_MAX = 512

/** The first character of digests and fallback keys; a part with it becomes a digest as well. */
const MARK = '~'

export function planKey(
  { key, otherwise }: Pick<LimitSettings, 'key' | 'otherwise'>,
  context: KeyContext,
): KeyPlan {
  const { keys, end } = chain(key, otherwise ?? 'deny')
  return {
    alternatives: keys.map((one, at) => alternative(one, at, context)),
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

/** True if every request has this part. */
export function isCertain(part: KeyPart): boolean {
  return ['path', 'method', 'route', 'region', 'tier', 'everyone'].some((name) => name === part)
}

function chain(
  key: KeySettings,
  otherwise: FallbackSettings,
): { readonly keys: readonly (readonly KeyPart[])[]; readonly end: 'deny' | 'skip' } {
  const parts = Array.isArray(key) ? key : [key]
  if (otherwise === 'deny' || otherwise === 'skip') return { keys: [parts], end: otherwise }
  const isChain = typeof otherwise === 'object' && 'key' in otherwise
  const next = isChain ? chain(otherwise.key, otherwise.otherwise) : chain(otherwise, 'deny')
  return { keys: [parts, ...next.keys], end: next.end }
}

function alternative(parts: readonly KeyPart[], at: number, context: KeyContext): KeyAlternative {
  const reads = parts.map((part) => reader(part, context))
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
      const texts = values.map((value, index) =>
        bounded(normalizePart(value, parts[index], context)),
      )
      return mark + (isComposite ? shortened(texts.map(withLength).join('')) : (texts[0] ?? ''))
    },
  }
}

function reader(part: KeyPart, { region, ipv6Prefix }: KeyContext): Read {
  if (typeof part === 'object') {
    if ('header' in part) return (facts) => facts.header(part.header)
    if ('claim' in part) return ({ identity }) => claimOf(identity.claims, part.claim)
    if ('descriptor' in part) return ({ descriptor }) => descriptor?.entry(part.descriptor)
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
        // An address has no space, so that the result is unambiguous.
        return address && `${address} ${digest(facts.header('user-agent') ?? '').slice(0, 16)}`
      }
    case 'path':
      return ({ path }) => readPath(path)
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
    case 'domain':
      return ({ descriptor }) => descriptor?.domain
  }
}

/** The value of a claim as text; undefined if it is not a scalar. */
export function claimOf(
  claims: Readonly<Record<string, unknown>> | undefined,
  name: string,
): string | undefined {
  if (claims === undefined || !Object.hasOwn(claims, name)) return undefined
  const value = claims[name]
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined
}

/** An IPv4 address is already canonical; an IPv6 address is reduced to its network. */
function addressOf(ip: string | undefined, prefix: number): string | undefined {
  if (ip === undefined || !ip.includes(':')) return ip
  const address = parseIp(ip)
  return address === undefined ? undefined : ipKey(address, prefix)
}

/** Returns the canonical spelling of an address or a path that a policy or a caller wrote. */
function normalizePart(
  value: string,
  part: KeyPart | undefined,
  { ipv6Prefix }: KeyContext,
): string {
  if (part === 'path') return readPath(value)
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

/** The length marks the end of the part, so that different lists have different texts. */
function withLength(part: string): string {
  return `${part.length}:${part}`
}

function digestText(text: string): string {
  return `${MARK}h:${digest(text)}`
}

/** Hashes UTF-16 code units, because UTF-8 maps all lone surrogates to one text. */
function digest(text: string): string {
  return createHash('sha256').update(text, 'utf16le').digest('base64url')
}

function labelOf(part: KeyPart): string {
  if (typeof part === 'string') return part
  const [[name, value] = []] = Object.entries(part)
  return `{ ${name}: ${value} }`
}
