/**
 * The message of the mode `shared`: rows of keys, with the entries that the receiver is not known
 * to have. An answer repeats the entries of its request as the sender has them, which is the
 * acknowledgement.
 *
 * Each message can be read by itself, whatever was lost before it. What rows have in common is
 * listed once in front: the source of an entry is its region, incarnation and mask, and the shape
 * of a row is its cell with the sources of its entries. So a row has 9 bytes for its key, 1 for
 * its shape and 2 to 4 for each entry. Buckets have an incarnation for each key, of 4 bytes more.
 */

import { ByteReader, ByteWriter } from './bytes.ts'
import { parseStamp, type Stamp, stampText } from './hlc.ts'
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

const WHOLE_MAX = Number.MAX_SAFE_INTEGER

/** The first byte is this, or one more for an answer. Another format has another number. */
const FORMAT = 2

const STAMP_MS_MAX = 2 ** 48 - 1
const STAMP_COUNT_MAX = 2 ** 16 - 1

/** What entries of many rows have in common. */
interface Source {
  readonly region: number
  /** Undefined if each entry has one of its own. */
  readonly incarnation: string | undefined
  readonly maskVersion: number
  readonly mask: number
}

interface Shape {
  readonly cell: number
  /** Places in the list of sources. */
  readonly sources: readonly number[]
}

export function encodeShared({ isAnswer, exchange, incarnation, rows }: SharedMessage): Uint8Array {
  const writer = new ByteWriter()
  writer.byte(FORMAT + (isAnswer ? 1 : 0))
  writer.whole(exchange)
  writer.stamp(incarnation)
  writer.whole(rows.length)
  if (rows.length === 0) return writer.finish()
  const base = leastIncarnation(rows)
  const sources = new Listed<Source>()
  const shapes = new Listed<Shape>()
  const sourceOf = sourceFinder(rows, sources)
  const placed = rows.map((row) => {
    const ofRow = row.entries.map(sourceOf)
    return shapes.place(`${row.cell} ${ofRow.join(' ')}`, { cell: row.cell, sources: ofRow })
  })
  writer.stamp(stampText(base))
  writer.whole(sources.items.length)
  for (const source of sources.items) writeSource(writer, source, base)
  writer.whole(shapes.items.length)
  for (const shape of shapes.items) writeShape(writer, shape)
  for (const [at, { key, entries }] of rows.entries()) {
    writer.digest(key)
    const place = placed[at] as number
    writer.whole(place)
    const shape = shapes.items[place] as Shape
    for (const [of, entry] of entries.entries()) {
      const source = sources.items[shape.sources[of] as number] as Source
      if (source.incarnation === undefined) writeStamp(writer, entry.incarnation, base)
      writer.whole(entry.own)
      writer.whole(entry.own - entry.stable)
    }
  }
  return writer.finish()
}

/** Values by their text, each listed once. */
class Listed<T> {
  readonly items: T[] = []
  readonly #places = new Map<string, number>()

  place(text: string, item: T): number {
    const known = this.#places.get(text)
    if (known !== undefined) return known
    this.#places.set(text, this.items.length)
    return this.items.push(item) - 1
  }
}

/** Finds the place of an entry's source in the list, and adds it if it is new. */
function sourceFinder(
  rows: readonly WireRow[],
  sources: Listed<Source>,
): (entry: SharedEntry) => number {
  const textOf = ({ region, maskVersion, mask }: SharedEntry) => `${region} ${maskVersion} ${mask}`
  const incarnations = new Map<string, Set<string>>()
  for (const { entries } of rows) {
    for (const entry of entries) {
      const text = textOf(entry)
      const ofSource = incarnations.get(text)
      if (ofSource === undefined) incarnations.set(text, new Set([entry.incarnation]))
      else ofSource.add(entry.incarnation)
    }
  }
  return (entry) => {
    const { region, maskVersion, mask } = entry
    const text = textOf(entry)
    // A store has a few incarnations in a window, and buckets have one for each key.
    const isListed = (incarnations.get(text)?.size ?? 0) <= INCARNATIONS_MAX
    const incarnation = isListed ? entry.incarnation : undefined
    const source = { region, incarnation, maskVersion, mask }
    return sources.place(isListed ? `${text} ${incarnation}` : text, source)
  }
}

function leastIncarnation(rows: readonly WireRow[]): Stamp {
  let least: string | undefined
  for (const { entries } of rows) {
    for (const { incarnation } of entries) {
      if (least === undefined || incarnation < least) least = incarnation
    }
  }
  return parseStamp(least ?? '0'.repeat(16))
}

function writeSource(writer: ByteWriter, source: Source, base: Stamp): void {
  const { region, incarnation, maskVersion, mask } = source
  writer.byte(region)
  writer.byte(incarnation === undefined ? 0 : 1)
  if (incarnation !== undefined) writeStamp(writer, incarnation, base)
  writer.whole(maskVersion)
  writer.whole(mask)
}

function writeShape(writer: ByteWriter, { cell, sources }: Shape): void {
  writer.whole(cell)
  writer.whole(sources.length)
  for (const place of sources) writer.whole(place)
}

/** A stamp that is not before `base`. */
function writeStamp(writer: ByteWriter, text: string, base: Stamp): void {
  const { ms, count } = parseStamp(text)
  writer.whole(ms - base.ms)
  writer.whole(count)
}

/** Throws an error that names the wrong field; the message is dropped as a whole. */
export function decodeShared(bytes: Uint8Array): SharedMessage {
  const reader = new ByteReader(bytes, 'shared')
  const isAnswer = reader.among('format', [FORMAT, FORMAT + 1]) === FORMAT + 1
  const exchange = reader.whole('exchange', WHOLE_MAX)
  const incarnation = reader.stamp('incarnation')
  const count = reader.whole('rows', ROWS_MAX)
  const rows = count === 0 ? [] : readRows(reader, count)
  reader.end()
  return { isAnswer, exchange, incarnation, rows }
}

function readRows(reader: ByteReader, count: number): WireRow[] {
  const base = parseStamp(reader.stamp('base'))
  const sources: Source[] = []
  const sourcesCount = reader.whole('sources', count * ENTRIES_MAX)
  for (let at = 0; at < sourcesCount; at++) sources.push(readSource(reader, base))
  const shapes: Shape[] = []
  const shapesCount = reader.whole('shapes', count)
  for (let at = 0; at < shapesCount; at++) shapes.push(readShape(reader, sources.length))
  const rows: WireRow[] = []
  for (let at = 0; at < count; at++) {
    const key = reader.digest('rows.key')
    const { cell, sources: places } = shapes[reader.whole('rows.shape', shapesCount - 1)] as Shape
    const entries = places.map((place) => readEntry(reader, sources[place] as Source, base))
    rows.push({ key, cell, entries })
  }
  return rows
}

function readSource(reader: ByteReader, base: Stamp): Source {
  return {
    region: reader.whole('sources.region', REGIONS_MAX - 1),
    incarnation: reader.whole('sources.isListed', 1) === 1 ? readStamp(reader, base) : undefined,
    maskVersion: reader.whole('sources.maskVersion', WHOLE_MAX),
    mask: reader.whole('sources.mask', 2 ** REGIONS_MAX - 1),
  }
}

function readShape(reader: ByteReader, sources: number): Shape {
  const cell = reader.whole('shapes.cell', WHOLE_MAX)
  const count = reader.whole('shapes.entries', ENTRIES_MAX)
  const places: number[] = []
  for (let at = 0; at < count; at++) places.push(reader.whole('shapes.source', sources - 1))
  return { cell, sources: places }
}

function readEntry(reader: ByteReader, source: Source, base: Stamp): SharedEntry {
  const { region, maskVersion, mask } = source
  const incarnation = source.incarnation ?? readStamp(reader, base)
  const own = reader.whole('rows.own', WHOLE_MAX)
  const stable = own - reader.whole('rows.stable', own)
  return { region, incarnation, own, stable, maskVersion, mask }
}

function readStamp(reader: ByteReader, base: Stamp): string {
  const ms = base.ms + reader.whole('incarnation.ms', STAMP_MS_MAX - base.ms)
  return stampText({ ms, count: reader.whole('incarnation.count', STAMP_COUNT_MAX) })
}
