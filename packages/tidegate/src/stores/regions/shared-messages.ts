/**
 * The message of the mode `shared`: rows of keys, with the entries of all regions as the sender
 * knows them. The receiver's own entry in a row is an acknowledgement.
 *
 * A row has 9 bytes for its key and about 6 for each region. Incarnations are listed once in front.
 */

import { ByteReader, ByteWriter } from './bytes.ts'
import { INCARNATIONS_MAX, type SharedEntry } from './shared-row.ts'
import { REGIONS_MAX } from './shares.ts'

export interface WireRow {
  /** The digest of the key: 12 characters. */
  readonly key: string
  readonly cell: number
  readonly entries: readonly SharedEntry[]
}

export interface SharedMessage {
  /** An answer is not answered. */
  readonly isAnswer: boolean
  /** Numbers the exchanges of a sender; an answer has the number of its request. */
  readonly exchange: number
  /** The incarnation of the sender's store. */
  readonly incarnation: string
  readonly rows: readonly WireRow[]
}

/** At 36 bytes each, this is less than 256 KiB, which a link carries in a part of a second. */
export const ROWS_MAX = 4_096

const ENTRIES_MAX = REGIONS_MAX * INCARNATIONS_MAX

const INCARNATIONS_LISTED_MAX = ROWS_MAX * ENTRIES_MAX

const WHOLE_MAX = Number.MAX_SAFE_INTEGER

export function encodeShared(message: SharedMessage): Uint8Array {
  const writer = new ByteWriter()
  writer.byte(message.isAnswer ? 1 : 0)
  writer.whole(message.exchange)
  writer.stamp(message.incarnation)
  const places = new Map<string, number>()
  for (const { entries } of message.rows) {
    for (const { incarnation } of entries) {
      if (!places.has(incarnation)) places.set(incarnation, places.size)
    }
  }
  writer.whole(places.size)
  for (const incarnation of places.keys()) writer.stamp(incarnation)
  writer.whole(message.rows.length)
  let cellBefore = 0
  for (const { key, cell, entries } of message.rows) {
    writer.digest(key)
    // Rows of a message mostly have the same cell.
    writer.byte(cell === cellBefore ? 0 : 1)
    if (cell !== cellBefore) writer.whole(cell)
    cellBefore = cell
    writer.whole(entries.length)
    for (const entry of entries) writeEntry(writer, entry, places.get(entry.incarnation) ?? 0)
  }
  return writer.finish()
}

function writeEntry(writer: ByteWriter, entry: SharedEntry, place: number): void {
  writer.byte(entry.region)
  writer.whole(place)
  writer.whole(entry.own)
  writer.whole(entry.own - entry.stable)
  writer.whole(entry.maskVersion)
  writer.whole(entry.mask)
}

/** Throws an error that names the wrong field; the message is dropped as a whole. */
export function decodeShared(bytes: Uint8Array): SharedMessage {
  const reader = new ByteReader(bytes, 'shared')
  const isAnswer = reader.whole('isAnswer', 1) === 1
  const exchange = reader.whole('exchange', WHOLE_MAX)
  const incarnation = reader.stamp('incarnation')
  const incarnations: string[] = []
  const listed = reader.whole('incarnations', INCARNATIONS_LISTED_MAX)
  for (let at = 0; at < listed; at++) incarnations.push(reader.stamp('incarnations'))
  const rows: WireRow[] = []
  const count = reader.whole('rows', ROWS_MAX)
  let cell = 0
  for (let at = 0; at < count; at++) {
    const key = reader.digest('rows.key')
    if (reader.whole('rows.hasCell', 1) === 1) cell = reader.whole('rows.cell', WHOLE_MAX)
    rows.push({ key, cell, entries: readEntries(reader, incarnations) })
  }
  reader.end()
  return { isAnswer, exchange, incarnation, rows }
}

function readEntries(reader: ByteReader, incarnations: readonly string[]): SharedEntry[] {
  const entries: SharedEntry[] = []
  const count = reader.whole('rows.entries', ENTRIES_MAX)
  for (let at = 0; at < count; at++) {
    const region = reader.whole('rows.entries.region', REGIONS_MAX - 1)
    const place = reader.whole('rows.entries.incarnation', incarnations.length - 1)
    const own = reader.whole('rows.entries.own', WHOLE_MAX)
    entries.push({
      region,
      incarnation: incarnations[place] as string,
      own,
      stable: own - reader.whole('rows.entries.stable', own),
      maskVersion: reader.whole('rows.entries.maskVersion', WHOLE_MAX),
      mask: reader.whole('rows.entries.mask', 2 ** REGIONS_MAX - 1),
    })
  }
  return entries
}
