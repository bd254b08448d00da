/**
 * Entries in the order of their keys. A list never changes: a change makes another list, so that
 * listeners can keep the one they were given.
 */

import type { Entry, RangeOptions } from './key-value.ts'

/** `entry` undefined deletes the key. */
export interface EntryChange {
  readonly key: string
  readonly entry: Entry | undefined
}

export function changedEntries(
  entries: readonly Entry[],
  changes: readonly EntryChange[],
): readonly Entry[] {
  const changed = [...entries]
  for (const { key, entry } of changes) {
    const at = firstFrom(changed, key)
    const removed = changed[at]?.key === key ? 1 : 0
    changed.splice(at, removed, ...(entry === undefined ? [] : [entry]))
  }
  return changed
}

export function entryOf(entries: readonly Entry[], key: string): Entry | undefined {
  const entry = entries[firstFrom(entries, key)]
  return entry?.key === key ? entry : undefined
}

export function entriesBelow(entries: readonly Entry[], prefix: string): readonly Entry[] {
  return entries.slice(firstFrom(entries, prefix), firstFrom(entries, afterPrefix(prefix)))
}

/** Applies `from`, `isDescending` and `entriesMax` to entries below a prefix. */
export function pageOf(entries: readonly Entry[], options: RangeOptions): readonly Entry[] {
  const { from, entriesMax = Number.POSITIVE_INFINITY, isDescending = false } = options
  if (!isDescending) {
    const start = from === undefined ? 0 : firstFrom(entries, from)
    return entries.slice(start, start + entriesMax)
  }
  const end = from === undefined ? entries.length : firstFrom(entries, `${from}\0`)
  return entries.slice(Math.max(0, end - entriesMax), end).reverse()
}

/** The first text after all texts that begin with this prefix. Keys are ASCII. */
export function afterPrefix(prefix: string): string {
  if (prefix === '') return '\x7f'
  return prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1)
}

/** The index of the first entry that does not come before `key`. */
function firstFrom(entries: readonly Entry[], key: string): number {
  let low = 0
  let high = entries.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((entries[middle]?.key ?? '') < key) low = middle + 1
    else high = middle
  }
  return low
}
