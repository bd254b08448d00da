/**
 * Calls of a store as frames between regions. A call has the numbers of its limit, because tiers
 * and overrides are known where the request is; the receiver checks that the limit is one that
 * regions share.
 */

import type { Adjustment, Charge, Counter, Decision } from 'tidegate'
import { ByteReader, ByteWriter, MessageError } from '../link/bytes.ts'
import { readLimit, writeLimit } from './limit-bytes.ts'

export type StoreCall =
  | { readonly kind: 'all' | 'partial' | 'peek'; readonly group: readonly Charge[] }
  | { readonly kind: 'adjust'; readonly group: readonly Adjustment[] }
  | { readonly kind: 'reset'; readonly group: readonly Counter[] }

const kinds = ['all', 'partial', 'peek', 'adjust', 'reset'] as const

/** A request has at most as many limits as a policy. */
export const GROUP_MAX = 256

const NAME_BYTES_MAX = 96
const KEY_BYTES_MAX = 64
const ID_BYTES_MAX = 64

const HAS_HOLD = 1
const HAS_SETTLES = 2
const HAS_RELEASE = 1
const HAS_RENEWS = 2

export function encodeCall({ kind, group }: StoreCall): Buffer {
  const writer = new ByteWriter().byte(kinds.indexOf(kind)).whole(group.length)
  for (const counter of group) {
    writeLimit(writer.text(counter.name).text(counter.key), counter.limit)
    if (kind === 'adjust') writeAdjustment(writer, counter as Adjustment)
    else if (kind !== 'reset') writeCharge(writer, counter as Charge)
  }
  return writer.finish()
}

/** Throws a `MessageError`. */
export function decodeCall(bytes: Uint8Array): StoreCall {
  const reader = new ByteReader(bytes)
  const kind = kinds[reader.byte()]
  const count = reader.count(GROUP_MAX, 'counters')
  if (kind === undefined || count === 0) throw new MessageError('not a call of a store')
  const group = Array.from({ length: count }, () => {
    const name = reader.text(NAME_BYTES_MAX, 'name')
    const key = reader.text(KEY_BYTES_MAX, 'key')
    const counter = { name, key, limit: readLimit(reader) }
    if (kind === 'reset') return counter
    return kind === 'adjust' ? readAdjustment(reader, counter) : readCharge(reader, counter)
  })
  if (!reader.isAtEnd) throw new MessageError('the call is longer than its counters')
  return { kind, group } as StoreCall
}

const ALLOWED = 1
const NEVER = 2
const UNCONFIRMED = 4

export function encodeDecisions(decisions: readonly Decision[]): Buffer {
  const writer = new ByteWriter().whole(decisions.length)
  for (const decision of decisions) {
    const { allowed, limit, remaining, retryAfterMs, resetAfterMs, granted, degraded } = decision
    const isNever = retryAfterMs === Infinity
    const flags =
      (allowed ? ALLOWED : 0) + (isNever ? NEVER : 0) + (degraded === null ? 0 : UNCONFIRMED)
    writer.byte(flags).whole(limit).whole(remaining).whole(granted)
    writer.whole(isNever ? 0 : wholeMs(retryAfterMs)).whole(wholeMs(resetAfterMs))
  }
  return writer.finish()
}

/** Throws a `MessageError`. */
export function decodeDecisions(bytes: Uint8Array, count: number): readonly Decision[] {
  const reader = new ByteReader(bytes)
  if (reader.count(GROUP_MAX, 'decisions') !== count) {
    throw new MessageError('the answer has another number of decisions')
  }
  return Array.from({ length: count }, () => {
    const flags = reader.byte()
    const [limit, remaining, granted] = [reader.whole(), reader.whole(), reader.whole()]
    const [retryMs, resetAfterMs] = [reader.whole(), reader.whole()]
    return {
      allowed: (flags & ALLOWED) > 0,
      limit,
      remaining,
      retryAfterMs: (flags & NEVER) > 0 ? Infinity : retryMs,
      resetAfterMs,
      granted,
      degraded: (flags & UNCONFIRMED) > 0 ? { reason: 'unconfirmed', mode: 'open' } : null,
      source: 'store',
    }
  })
}

/** A wait is never shortened. */
function wholeMs(ms: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(ms))
}

function writeCharge(writer: ByteWriter, { cost, hold, settles }: Charge): void {
  const flags = (hold === undefined ? 0 : HAS_HOLD) + (settles === undefined ? 0 : HAS_SETTLES)
  writer.whole(cost).byte(flags)
  if (hold !== undefined) writer.text(hold.id).whole(hold.ttlMs)
  if (settles !== undefined) writer.text(settles.release).whole(settles.units)
}

function readCharge(reader: ByteReader, counter: Counter): Charge {
  const cost = reader.whole()
  const flags = reader.byte()
  const hold =
    (flags & HAS_HOLD) > 0
      ? { hold: { id: reader.text(ID_BYTES_MAX, 'hold'), ttlMs: reader.whole() } }
      : undefined
  const settles =
    (flags & HAS_SETTLES) > 0
      ? { settles: { release: reader.text(ID_BYTES_MAX, 'hold'), units: reader.whole() } }
      : undefined
  return { ...counter, cost, ...hold, ...settles }
}

function writeAdjustment(writer: ByteWriter, { units, release, renews }: Adjustment): void {
  const flags = (release === undefined ? 0 : HAS_RELEASE) + (renews === undefined ? 0 : HAS_RENEWS)
  writer.byte(units < 0 ? 1 : 0).whole(Math.abs(units))
  writer.byte(flags)
  if (release !== undefined) writer.text(release)
  if (renews !== undefined) writer.text(renews.id).whole(renews.ttlMs)
}

function readAdjustment(reader: ByteReader, counter: Counter): Adjustment {
  const sign = reader.byte() === 0 ? 1 : -1
  const units = sign * reader.whole()
  const flags = reader.byte()
  const release =
    (flags & HAS_RELEASE) > 0 ? { release: reader.text(ID_BYTES_MAX, 'hold') } : undefined
  const renews =
    (flags & HAS_RENEWS) > 0
      ? { renews: { id: reader.text(ID_BYTES_MAX, 'hold'), ttlMs: reader.whole() } }
      : undefined
  return { ...counter, units, ...release, ...renews }
}
