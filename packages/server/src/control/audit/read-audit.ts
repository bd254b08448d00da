/** Reads audit records: filtered pages, lines for export, and a check of their chain. */

import type { Entry, KeyValueStore } from '../key-value.ts'
import { AUDIT_PREFIX, auditKey, hashOf, headEntryOf, oldestWith, readHead } from './audit-chain.ts'
import type { AuditRecord, AuditResult } from './audit-record.ts'

export interface AuditFilter {
  /** The id or the name of the actor. */
  readonly actor?: string | undefined
  /** An action such as `override.set`, or its beginning such as `override`. */
  readonly action?: string | undefined
  /** The type, the id, the limit or the key hash of the target. */
  readonly target?: string | undefined
  readonly result?: AuditResult | undefined
  /** In milliseconds since 1970. */
  readonly since?: number | undefined
  readonly until?: number | undefined
}

export type AuditVerdict =
  | { readonly ok: true; readonly records: number; readonly first: number; readonly last: number }
  /** The number of the first record that does not fit, and why. */
  | { readonly ok: false; readonly at: number; readonly problem: string }

/** A page of the store: a few hundred kilobytes. */
const PAGE_ENTRIES = 500

/** Yields the records that the filter accepts, the latest first. */
export async function* latestRecords(
  store: KeyValueStore,
  filter: AuditFilter = {},
  before = Number.MAX_SAFE_INTEGER,
): AsyncGenerator<AuditRecord> {
  const head = await headEntryOf(store)
  let last = Math.min(head === undefined ? 0 : readHead(head.value).sequence, before - 1)
  while (last >= 1) {
    const first = Math.max(1, last - PAGE_ENTRIES + 1)
    const entries = await pageOf(store, first)
    if (entries.length === 0) return
    const records = entries.flatMap((entry) => recordOf(entry) ?? [])
    for (const record of records.filter(({ id }) => id <= last).reverse()) {
      if (isMatch(record, filter)) yield record
    }
    last = first - 1
  }
}

/** Reads all records in their order. The first one may follow those that are no longer kept. */
export async function verifyAudit(store: KeyValueStore): Promise<AuditVerdict> {
  const head = await headEntryOf(store)
  const { sequence, hash } = head === undefined ? { sequence: 0, hash: '' } : readHead(head.value)
  let before: { readonly id: number; readonly hash: string } | undefined
  let first = 0
  let count = 0
  for (let from = 0; ; ) {
    const entries = (await pageOf(store, from)).filter(({ key }) => key <= auditKey(sequence))
    if (entries.length === 0) break
    for (const entry of entries) {
      const record = recordOf(entry)
      const problem = problemOf(entry, record, before)
      const id = record?.id ?? (before?.id ?? 0) + 1
      if (problem !== undefined) return { ok: false, at: id, problem }
      before = { id, hash: hashOf(entry.value) }
      first ||= id
      count += 1
    }
    from = (before?.id ?? 0) + 1
  }
  if ((before?.id ?? 0) !== sequence) {
    return { ok: false, at: (before?.id ?? 0) + 1, problem: 'the record is missing' }
  }
  if ((before?.hash ?? '') !== hash) {
    return { ok: false, at: sequence, problem: 'the record was changed' }
  }
  if (first > (await oldestKept(store))) {
    return { ok: false, at: first, problem: 'records before it are missing' }
  }
  return { ok: true, records: count, first, last: sequence }
}

/** By the head as it is now, because changes remove old records while others are read. */
async function oldestKept(store: KeyValueStore): Promise<number> {
  const head = await headEntryOf(store)
  return oldestWith(store, head === undefined ? 0 : readHead(head.value).sequence)
}

function problemOf(
  { key }: Entry,
  record: AuditRecord | undefined,
  before: { readonly id: number; readonly hash: string } | undefined,
): string | undefined {
  if (record === undefined || auditKey(record.id) !== key) return 'not a record'
  if (before === undefined) return undefined
  if (record.id !== before.id + 1) return `records ${before.id + 1} to ${record.id - 1} are missing`
  return record.prev === before.hash ? undefined : `record ${before.id} was changed`
}

async function pageOf(store: KeyValueStore, from: number): Promise<readonly Entry[]> {
  const options = { from: auditKey(from), entriesMax: PAGE_ENTRIES }
  return (await store.range(AUDIT_PREFIX, options)).entries
}

function recordOf({ value }: Entry): AuditRecord | undefined {
  try {
    const record = JSON.parse(value) as AuditRecord
    return Number.isSafeInteger(record?.id) && typeof record.at === 'string' ? record : undefined
  } catch {
    return undefined
  }
}

function isMatch(record: AuditRecord, filter: AuditFilter): boolean {
  const { actor, action, target, result, since, until } = filter
  const atMs = Date.parse(record.at)
  if (since !== undefined && atMs < since) return false
  if (until !== undefined && atMs >= until) return false
  if (result !== undefined && record.result !== result) return false
  if (actor !== undefined && record.actor.id !== actor && record.actor.name !== actor) return false
  if (action !== undefined && !isAction(record.action, action)) return false
  return target === undefined || Object.values(record.target ?? {}).includes(target)
}

function isAction(action: string, asked: string): boolean {
  return action === asked || action.startsWith(`${asked}.`)
}
