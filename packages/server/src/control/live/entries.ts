/**
 * Overrides, blocks and the switch as the control store keeps them: one small JSON text for each,
 * under a path with a digest of the key. The text has the key itself, because nodes compare it with
 * requests, so the digest is a short name and not a secret. Texts from the store are not trusted: a
 * text that does not fit is left out with a problem, and the others apply.
 */

import { createHash } from 'node:crypto'
import { parseIp } from 'tidegate/http'
import { z } from 'zod'
import {
  type BlockKind,
  blockKinds,
  type LiveBlock,
  type LiveOverride,
  type LiveSwitch,
  switchStates,
} from '../../limits/live/live-entries.ts'
import { cidr, name } from '../../policy/schema/field-types.ts'
import { limitChange } from '../../policy/schema/limits-section.ts'
import { actorName, plainText, reason } from '../plain-text.ts'

export const LIVE_PREFIX = 'live/'
export const OVERRIDES_PREFIX = 'live/overrides/'
export const BLOCKS_PREFIX = 'live/blocks/'
export const SWITCH_KEY = 'live/switch'

/** 10,000 customers with their own numbers, five times over. */
export const OVERRIDES_MAX = 50_000

/** More clients than operators block one by one; networks cover the others. */
export const BLOCKS_MAX = 10_000

/** An entry with the longest key and reason takes half of it. */
export const ENTRY_BYTES_MAX = 4_096

/** Identifiers are shorter; the engine replaces longer parts of keys by digests. */
const KEY_PART_LENGTH_MAX = 256

const KEY_PARTS_MAX = 8

export const keyParts = z
  .array(z.string().min(1).max(KEY_PART_LENGTH_MAX))
  .min(1)
  .max(KEY_PARTS_MAX)
  .describe('A text for each part of the key.')

const time = z.iso.datetime({ offset: true, error: 'a time such as 2026-12-01T00:00:00Z' })

/** The author, the time and the reason of an entry, and its end; null for no end. */
const origin = { by: actorName, at: time, why: reason, expires: time.nullable() }

export const storedOverride = z.strictObject({
  limit: name,
  key: keyParts,
  set: limitChange,
  ...origin,
})

const answer = z.union([z.literal(403), z.literal(429)])

export const blockTargetFields = {
  kind: z.enum(blockKinds).describe('The kind of the value.'),
  value: plainText(KEY_PART_LENGTH_MAX)
    .optional()
    .describe('An address, a CIDR or an id; not for the kind `key`.'),
  limit: name.optional().describe('The limit, for the kind `key`.'),
  key: keyParts.optional(),
}

/** The client of a block. */
export interface BlockTarget {
  readonly kind: BlockKind
  readonly value?: string | undefined
  readonly limit?: string | undefined
  readonly key?: string[] | undefined
}

export const storedBlock = z
  .strictObject({ ...blockTargetFields, answer, ...origin })
  .refine((block) => blockProblem(block) === undefined)

export const storedSwitch = z.strictObject({
  limits: z.enum(switchStates),
  blocks: z.enum(['on', 'off']),
  ...origin,
})

export type StoredOverride = z.input<typeof storedOverride>
export type StoredBlock = z.output<typeof storedBlock>
export type StoredSwitch = z.output<typeof storedSwitch>

/** Undefined for a text that is not an object, such as one that was written by hand. */
export function entryOf(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : undefined
  } catch {
    return undefined
  }
}

/** Undefined if the switch was never set, or is not valid and has no effect. */
export function switchOf(text: string | undefined): StoredSwitch | undefined {
  return text === undefined ? undefined : storedSwitch.safeParse(entryOf(text)).data
}

/** A name of fixed length for a key. It is not keyed: an address can be guessed from it. */
export function digestOfParts(...parts: readonly string[]): string {
  const text = JSON.stringify(parts)
  return createHash('sha256').update(text, 'utf16le').digest('base64url').slice(0, 22)
}

export function overrideKey(limit: string, key: readonly string[]): string {
  return `${OVERRIDES_PREFIX}${encodeURIComponent(limit)}/${digestOfParts(limit, ...key)}`
}

/** An address or a network has one path, however it is written. */
export function blockKey(target: BlockTarget): string {
  const { kind, limit = '', key = [] } = target
  return `${BLOCKS_PREFIX}${kind}/${digestOfParts(kind, canonicalValue(target), limit, ...key)}`
}

export function canonicalValue({ kind, value = '' }: Pick<BlockTarget, 'kind' | 'value'>): string {
  if (kind !== 'ip' && kind !== 'cidr') return value
  const [address = '', prefix] = value.split('/')
  const text = parseIp(address)?.text.toLowerCase() ?? address
  return prefix === undefined ? text : `${text}/${prefix}`
}

export function liveOverride(key: string, stored: z.output<typeof storedOverride>): LiveOverride {
  return { ...timesOf(key, stored), limit: stored.limit, key: stored.key, set: stored.set }
}

export function liveBlock(key: string, stored: StoredBlock): LiveBlock {
  const { kind, limit, key: parts, answer: status } = stored
  const value = canonicalValue(stored)
  return { ...timesOf(key, stored), kind, value, limit, key: parts, answer: status }
}

export function liveSwitch(stored: StoredSwitch): LiveSwitch {
  const { limits, blocks } = stored
  return { ...timesOf(SWITCH_KEY, stored), limits, blocks }
}

function timesOf(key: string, { at, expires }: { at: string; expires: string | null }) {
  const expiresAt = expires === null ? Infinity : Date.parse(expires)
  return { id: key.slice(LIVE_PREFIX.length), at: Date.parse(at), expiresAt }
}

/** Returns a sentence if the fields do not fit the kind. */
export function blockProblem({ kind, value, limit, key }: BlockTarget): string | undefined {
  if (kind === 'key') {
    if (value !== undefined) return 'value: the kind key has limit and key, without a value'
    return limit === undefined || key === undefined
      ? 'limit, key: the kind key needs both'
      : undefined
  }
  if (limit !== undefined || key !== undefined) return 'kind: only the kind key has limit and key'
  if (value === undefined) return 'value: is missing; allowed: an address, a CIDR or an id'
  if (kind === 'ip' && parseIp(value) === undefined) return 'value: allowed is an IP address'
  if (kind === 'cidr' && !cidr.safeParse(value).success) {
    return 'value: allowed is a CIDR such as 10.0.0.0/8 or 2001:db8::/32'
  }
  return undefined
}
