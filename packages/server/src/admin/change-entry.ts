/** Sets and removes entries of the control store, each with its audit record. */

import type { AuditTarget } from '../control/audit/audit-record.ts'
import { ENTRY_BYTES_MAX, entryOf } from '../control/live/entries.ts'
import { ApiError } from '../http-api/api-error.ts'
import type { ApiResponse } from '../http-api/messages.ts'
import { type Call, ok, scopeOf } from './route.ts'

export interface EntryChange {
  readonly key: string
  readonly value: object
  readonly action: string
  readonly target: AuditTarget
  readonly why: string
}

/** Keys of customers stay out of the audit; its target has their digest. */
const hiddenFields = new Set(['key', 'value', 'why', 'by', 'at', 'hash'])

export async function changeEntry(call: Call<unknown>, change: EntryChange): Promise<ApiResponse> {
  const { context, author } = call
  const { key, value, action, target, why } = change
  const text = JSON.stringify(value)
  if (Buffer.byteLength(text) > ENTRY_BYTES_MAX) {
    throw new ApiError(413, `The entry has more than ${ENTRY_BYTES_MAX} bytes.`)
  }
  const { record, revision } = await context.changes.change(async () => {
    const before = await entryAt(call, key)
    return {
      conditions: [{ key, revision: before?.revision ?? 0n }],
      writes: [{ key, value: text }],
      entry: {
        ...author,
        action,
        target,
        ...(before === undefined ? undefined : { before: shown(entryOf(before.value)) }),
        after: shown(value),
        reason: why,
        result: 'done',
      },
    }
  })
  return ok({ entry: value, audit: record.id, revision: String(revision), ...scopeOf(context) })
}

export async function removeEntry(
  call: Call<unknown>,
  { key, action, target, why }: Omit<EntryChange, 'value'>,
): Promise<ApiResponse> {
  const { context, author } = call
  const { record, revision } = await context.changes.change(async () => {
    const before = await entryAt(call, key)
    if (before === undefined) throw new ApiError(404, 'There is no such entry.')
    return {
      conditions: [{ key, revision: before.revision }],
      writes: [{ key, value: undefined }],
      entry: {
        ...author,
        action,
        target,
        before: shown(entryOf(before.value)),
        reason: why,
        result: 'done',
      },
    }
  })
  return ok({ removed: true, audit: record.id, revision: String(revision), ...scopeOf(context) })
}

async function entryAt({ context }: Call<unknown>, key: string) {
  const { entries } = await context.control.range(key)
  return entries.find((entry) => entry.key === key)
}

function shown(value: object | undefined): object {
  if (value === undefined) return { isReadable: false }
  return Object.fromEntries(Object.entries(value).filter(([field]) => !hiddenFields.has(field)))
}
