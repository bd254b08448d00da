/**
 * The chain of audit records. Each record has the hash of the one before, and the head has the
 * number and the hash of the last one. A record is written in the transaction of the change that it
 * describes, under the condition that the head has not moved: without a record there is no change,
 * and a missing or changed record shows.
 */

import { createHash } from 'node:crypto'
import type { Condition, Entry, KeyValueStore, Write } from '../key-value.ts'
import type { AuditEntry, AuditRecord } from './audit-record.ts'

/** The number and the hash of the last record. */
export const AUDIT_HEAD = 'audit-head'

export const AUDIT_PREFIX = 'audit/'

/** Texts of requests are cut to this length, so that a record stays far below a transaction. */
const TEXT_LENGTH_MAX = 1_024

/** Larger values are replaced by their size. */
const VALUE_BYTES_MAX = 8_192

/** Older records are removed: a file is written as a whole, etcd is made for some gigabytes. */
const RECORDS_MAX = { node: 10_000, fleet: 100_000 } as const

export interface AuditPart {
  readonly conditions: readonly Condition[]
  readonly writes: readonly Write[]
  readonly record: AuditRecord
}

export interface AuditHead {
  readonly sequence: number
  readonly hash: string
}

/**
 * Returns the conditions and writes that add a record to a transaction. If the transaction fails
 * because another record came first, call it again.
 */
export async function auditPart(store: KeyValueStore, entry: AuditEntry): Promise<AuditPart> {
  const known = await headEntryOf(store)
  const head = known === undefined ? { sequence: 0, hash: '' } : readHead(known.value)
  const id = head.sequence + 1
  const record: AuditRecord = {
    id,
    at: new Date().toISOString(),
    ...bounded(entry),
    prev: head.hash,
  }
  const value = JSON.stringify(record)
  const next: AuditHead = { sequence: id, hash: hashOf(value) }
  const removed = oldestWith(store, id) - 1
  return {
    conditions: [{ key: AUDIT_HEAD, revision: known?.revision ?? 0n }],
    writes: [
      { key: auditKey(id), value },
      { key: AUDIT_HEAD, value: JSON.stringify(next) },
      ...(removed < 1 ? [] : [{ key: auditKey(removed), value: undefined }]),
    ],
    record,
  }
}

/** The number of the oldest record that is kept with this one. */
export function oldestWith({ scope }: KeyValueStore, last: number): number {
  return Math.max(1, last - RECORDS_MAX[scope] + 1)
}

/** The key of a record; keys have the order of the records. */
export function auditKey(id: number): string {
  return `${AUDIT_PREFIX}${String(id).padStart(12, '0')}`
}

/** The hash that the next record carries. */
export function hashOf(value: string): string {
  return createHash('sha256').update(value).digest('hex')
}

export async function headEntryOf(store: KeyValueStore): Promise<Entry | undefined> {
  const { entries } = await store.range(AUDIT_HEAD)
  return entries.find(({ key }) => key === AUDIT_HEAD)
}

/** Throws if the text is not a head, because a new chain would hide the old one. */
export function readHead(text: string): AuditHead {
  const { sequence, hash } = parsed(text)
  if (Number.isSafeInteger(sequence) && typeof hash === 'string') {
    return { sequence: sequence as number, hash }
  }
  throw new Error(`${AUDIT_HEAD}: not a head of audit records, so that no change is possible`)
}

function parsed(text: string): Partial<Record<keyof AuditHead, unknown>> {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}

/** Values of requests are bounded, so that no record can be too large to be written. */
function bounded(entry: AuditEntry): AuditEntry {
  const { reason, before, after } = entry
  return {
    ...entry,
    ...(reason === undefined ? undefined : { reason: reason.slice(0, TEXT_LENGTH_MAX) }),
    ...(before === undefined ? undefined : { before: boundedValue(before) }),
    ...(after === undefined ? undefined : { after: boundedValue(after) }),
  }
}

function boundedValue(value: unknown): unknown {
  const { length } = JSON.stringify(value) ?? ''
  return length <= VALUE_BYTES_MAX ? value : { leftOut: `${length} characters` }
}
