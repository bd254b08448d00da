/**
 * The mode `shared` of one limit in one region: which units the region tells its peers, and what it
 * adds to its own counters because of theirs. It has no clock and does no I/O: times are arguments,
 * and messages and adjustments are results.
 *
 * The caller charges `costOf(units)` on a counter with the limit `counterLimit`, reports what was
 * admitted, and applies adjustments before it sends the messages of the same result: a message
 * acknowledges units that are counted. Without messages this is a partition by shares.
 */

import { capacityOf, type Limit } from '../../algorithms/limit.ts'
import { nextStamp, parseStamp, SKEW_MS_MAX, type Stamp, stampText } from './hlc.ts'
import type { RegionTimes } from './region-link.ts'
import { type Cells, cellsOf } from './shared-cells.ts'
import { ROWS_MAX, type SharedMessage, type WireRow } from './shared-messages.ts'
import { PeerStates } from './shared-peers.ts'
import {
  acksWith,
  answerOf,
  BUCKET_INCARNATIONS_MAX,
  echoWith,
  emptyRow,
  INCARNATIONS_MAX,
  isOwn,
  isSame,
  knownUnits,
  mergeEntry,
  newsOf,
  ownEntry,
  type SharedCosts,
  type SharedEntry,
  type SharedRow,
  targetOf,
  withStable,
} from './shared-row.ts'
import {
  sharedDefaults as defaults,
  type SharedAdjustment,
  type SharedEffects,
  type SharedSaved,
  type SharedSettings,
  sharedCounter,
} from './shared-settings.ts'
import { lastsMs } from './shares.ts'

/** Old rows are looked for once in this time, because the search visits every key. */
const DROP_EVERY_MS = 1_000

/** A later leader of the region has versions above those of all leaders before it. */
const VERSIONS_PER_TERM = 2 ** 24

export class SharedRegion {
  readonly counterLimit: Limit
  readonly #settings: SharedSettings
  readonly #names: readonly string[]
  readonly #costs: SharedCosts
  readonly #cells: Cells
  readonly #peers: PeerStates
  readonly #keysMax: number
  /** Own units from which on a key is exchanged. */
  readonly #floorUnits: number
  /** Rows by key: the current cell, and for a while the ones before and after. */
  readonly #rows = new Map<string, SharedRow[]>()
  /** Keys with an adjustment that waits for its cell. */
  readonly #waiting = new Set<string>()
  /** Keys whose rows changed since `takeChanged`. */
  readonly #changed = new Set<string>()
  #droppedMs = -Infinity
  #stamp: Stamp
  #mask: number
  #maskVersion = 1

  constructor(settings: SharedSettings, times: RegionTimes, saved?: SharedSaved) {
    const { names, costs, limit } = sharedCounter(settings)
    this.#settings = settings
    this.#names = names
    this.#costs = costs
    this.counterLimit = limit
    this.#cells = cellsOf(settings.limit)
    this.#keysMax = settings.keysMax ?? defaults.keysMax
    const share = (capacityOf(settings.limit) * this.#costs.known) / this.#costs.whole
    this.#floorUnits = (settings.floor ?? defaults.floor) * share
    this.#stamp = parseStamp(settings.incarnation)
    this.#mask = this.#allMask
    const { suspectAfterMs, exchangeMs } = { ...defaults, ...settings }
    const { steadyMs } = times
    this.#peers = new PeerStates(names.length, costs.self, exchangeMs, suspectAfterMs, steadyMs)
    if (saved !== undefined) this.#restore(saved, times)
  }

  #restore({ maskVersion, rows }: SharedSaved, { steadyMs }: RegionTimes): void {
    this.#maskVersion = maskVersion
    for (const [key, ofKey] of rows) {
      // Steady clocks of two processes cannot be compared.
      const restored = ofKey.map((row) => ({ ...row, changedMs: steadyMs }))
      this.#rows.set(key, restored)
      this.#peers.markDirty(key)
      this.#waiting.add(key)
    }
  }

  /** To be kept in the region's store, together with the adjustments of the same result. */
  save(): SharedSaved {
    return { maskVersion: this.#maskVersion, rows: [...this.#rows] }
  }

  /**
   * The rows that changed since the last call, to be kept in the region's store. Rows that are not
   * exchanged have no adjustment, and are left out.
   */
  takeChanged(): SharedSaved['rows'] {
    const changed = [...this.#changed].flatMap((key) => {
      const rows = this.#rows.get(key)?.filter((row) => this.#isExchanged(row)) ?? []
      return rows.length === 0 ? [] : [[key, rows] as const]
    })
    this.#changed.clear()
    return changed
  }

  /** The message with the rows as they are now, if units were admitted since it was made. */
  latest(to: string, message: SharedMessage): SharedMessage {
    const peer = this.#names.indexOf(to)
    return { ...message, rows: message.rows.flatMap((row) => this.#answered(peer, row)) }
  }

  get #allMask(): number {
    return 2 ** this.#names.length - 1
  }

  /** The cost in the region's counter. */
  costOf(units: number): number {
    return units * this.#costs.whole
  }

  /** The regions that this one waits for. */
  get mask(): readonly string[] {
    return this.#names.filter((_, region) => (this.#mask & (1 << region)) !== 0)
  }

  get keys(): ReadonlyMap<string, unknown> {
    return this.#rows
  }

  /** Units of the current cell that are known to be admitted, in all regions. */
  knownUnits(key: string, times: RegionTimes): number {
    const row = this.#find(key, this.#cells.at(times.storeMs))
    return row === undefined ? 0 : knownUnits(row)
  }

  /** The entries of all regions for the current cell of a key, for operators and tests. */
  entries(key: string, times: RegionTimes): readonly SharedEntry[] {
    return this.#find(key, this.#cells.at(times.storeMs))?.entries ?? []
  }

  lead(term: number): void {
    this.#maskVersion = Math.max(this.#maskVersion, term * VERSIONS_PER_TERM)
  }

  /** Reports units that were admitted here and charged on the region's counter. */
  admitted(key: string, units: number, times: RegionTimes): void {
    const row = this.#renewed(this.#rowAt(key, this.#cells.at(times.storeMs), times), times)
    if (row === undefined) return
    const { self } = this.#costs
    const own = ownEntry(row, self)
    const entry: SharedEntry = {
      region: self,
      incarnation: row.incarnation,
      own: (own?.own ?? 0) + units,
      stable: own?.stable ?? 0,
      maskVersion: this.#maskVersion,
      mask: this.#mask,
    }
    this.#keep(key, { ...row, entries: mergeEntry(row.entries, entry) }, times)
  }

  /** Does not wait for the answer to a message that was sent while the peer was out of reach. */
  reached(peer: string): void {
    this.#peers.reached(this.#names.indexOf(peer))
  }

  /** The offset of a peer's clock. With too large a one, its windows are not ours. */
  setOffset(peer: string, offsetMs: number): void {
    const most = Math.min(SKEW_MS_MAX, this.#cells.perMs / 10)
    this.#peers.setAligned(this.#names.indexOf(peer), Math.abs(offsetMs) <= most)
  }

  receive(from: string, message: SharedMessage, times: RegionTimes): SharedEffects {
    const peer = this.#names.indexOf(from)
    if (peer < 0 || peer === this.#costs.self) return { adjust: [], sends: [] }
    if (this.#peers.hear(peer, message, times.steadyMs)) this.#forgetEchoes(peer)
    const adjust = message.rows.flatMap((row) => this.#merge(peer, row, times))
    if (message.isAnswer) return { adjust, sends: [] }
    const rows = message.rows.flatMap((row) => this.#answered(peer, row))
    return { adjust, sends: [{ to: from, message: this.#message(rows, message.exchange, true) }] }
  }

  /** Starts an exchange with every peer that has none under way. To be called every exchangeMs. */
  tick(times: RegionTimes): SharedEffects {
    const adjust: SharedAdjustment[] = []
    this.#dropOld(times)
    const mask = this.#peers.maskAt(times.steadyMs)
    if (mask !== this.#mask) this.#changeMask(mask, times)
    for (const key of [...this.#waiting]) {
      this.#waiting.delete(key)
      for (const row of this.#rows.get(key) ?? []) adjust.push(...this.#apply(key, row, times))
    }
    const sends: SharedEffects['sends'][number][] = []
    for (let peer = 0; peer < this.#names.length; peer++) {
      if (peer === this.#costs.self || !this.#peers.isFree(peer, times.steadyMs)) continue
      const rows = this.#newsFor(peer)
      if (rows.length === 0 && !this.#peers.isHeartbeatDue(peer, times.steadyMs)) continue
      const exchange = this.#peers.begin(peer, times.steadyMs)
      sends.push({ to: this.#names[peer] as string, message: this.#message(rows, exchange, false) })
    }
    return { adjust, sends }
  }

  #message(rows: readonly WireRow[], exchange: number, isAnswer: boolean): SharedMessage {
    return { isAnswer, exchange, incarnation: this.#settings.incarnation, rows }
  }

  /** The row with its entries of now, and with news that the peer is not known to have. */
  #answered(peer: number, { key, cell, entries }: WireRow): WireRow[] {
    const row = this.#find(key, cell)
    return row ? [{ key, cell, entries: answerOf(row, peer, this.#allMask, entries) }] : []
  }

  #newsFor(peer: number): WireRow[] {
    const news: WireRow[] = []
    const { rowsMax = ROWS_MAX } = this.#settings
    const dirty = this.#peers.dirty(peer)
    for (const key of dirty) {
      let isNew = false
      for (const row of this.#rows.get(key) ?? []) {
        const entries = this.#isExchanged(row) ? newsOf(row, peer, this.#allMask) : []
        if (entries.length === 0) continue
        isNew = true
        if (news.length < rowsMax) news.push({ key, cell: row.cell, entries })
      }
      if (!isNew) dirty.delete(key)
      if (news.length === rowsMax) break
    }
    return news
  }

  /** Units that are not exchanged stay expensive, which is safe. */
  #isExchanged(row: SharedRow): boolean {
    const own = ownEntry(row, this.#costs.self)
    return own === undefined || row.entries.length > 1 || own.own >= this.#floorUnits
  }

  #merge(peer: number, { key, cell, entries }: WireRow, times: RegionTimes): SharedAdjustment[] {
    if (!this.#cells.isOpen(cell, times.storeMs)) return []
    const before = this.#rowAt(key, cell, times)
    if (before === undefined) return []
    const { self } = this.#costs
    let row = before
    let restored = 0
    for (const entry of entries) {
      if (entry.region >= this.#names.length) continue
      if (isOwn(row, entry, self)) {
        const own = ownEntry(row, self)?.own ?? 0
        // A store that went back to an older state admitted these units before.
        restored += Math.max(0, entry.own - own)
        if (entry.own > own) row = { ...row, entries: mergeEntry(row.entries, entry) }
        row = { ...row, acks: acksWith(row, peer, entry) }
      } else {
        row = this.#mergeForeign(row, entry)
      }
    }
    row = withStable({ ...row, echoes: echoWith(before, peer, entries) }, this.#costs)
    row = this.#keep(key, row, times, row.entries !== before.entries)
    const adjust = restored === 0 ? [] : [{ key, units: restored * this.#costs.whole }]
    return [...adjust, ...this.#apply(key, row, times)]
  }

  #mergeForeign(row: SharedRow, entry: SharedEntry): SharedRow {
    const ofRegion = row.entries.filter(({ region }) => region === entry.region)
    const isKnown = ofRegion.some((one) => isSame(one, entry))
    if (isKnown || (!this.#cells.isBucket && ofRegion.length < INCARNATIONS_MAX)) {
      return { ...row, entries: mergeEntry(row.entries, entry) }
    }
    if (!this.#cells.isBucket) return row
    const newest = [...ofRegion, entry]
      .toSorted((one, other) => (one.incarnation < other.incarnation ? 1 : -1))
      .slice(0, BUCKET_INCARNATIONS_MAX)
    // An own entry that a later one replaced since the store was first used has drained.
    const isLater = entry.incarnation >= this.#settings.incarnation
    if (!newest.includes(entry) || (entry.region === this.#costs.self && isLater)) return row
    const dropped = ofRegion.filter((one) => !newest.includes(one))
    const kept = this.#without(row, dropped)
    return { ...kept, entries: mergeEntry(kept.entries, entry) }
  }

  /** Drops entries whose units have drained, without a change of the counter. */
  #without(row: SharedRow, dropped: readonly SharedEntry[]): SharedRow {
    if (dropped.length === 0) return row
    const entries = row.entries.filter((entry) => !dropped.includes(entry))
    const after = { ...row, entries }
    const change = this.#targetOf(after) - this.#targetOf(row)
    return { ...after, applied: row.applied + change }
  }

  /** The adjustment that brings the counter to the row, if the counter is that of the row. */
  #apply(key: string, row: SharedRow, times: RegionTimes): SharedAdjustment[] {
    const units = this.#targetOf(row) - row.applied
    if (units === 0) return []
    const { boundaryMs = defaults.boundaryMs } = this.#settings
    if (!this.#cells.mayAdjust(row.cell, units, times.storeMs, boundaryMs)) {
      this.#waiting.add(key)
      return []
    }
    this.#replace(key, { ...row, applied: row.applied + units })
    return [{ key, units, cellEndMs: this.#cells.endOf(row.cell) }]
  }

  #targetOf(row: SharedRow): number {
    return targetOf(row, this.#costs, this.#mask)
  }

  #changeMask(mask: number, times: RegionTimes): void {
    this.#mask = mask
    this.#maskVersion++
    for (const [key, rows] of this.#rows) {
      this.#waiting.add(key)
      for (const row of rows) {
        const own = ownEntry(row, this.#costs.self)
        if (own === undefined || own.stable === own.own) continue
        const entry = { ...own, mask, maskVersion: this.#maskVersion }
        this.#keep(key, { ...row, entries: mergeEntry(row.entries, entry) }, times)
      }
    }
  }

  #find(key: string, cell: number): SharedRow | undefined {
    return this.#rows.get(key)?.find((one) => one.cell === cell)
  }

  /** The row of a key and cell, made if there is room. */
  #rowAt(key: string, cell: number, times: RegionTimes): SharedRow | undefined {
    const row = this.#find(key, cell)
    if (row !== undefined) return row
    if (!this.#rows.has(key) && this.#rows.size >= this.#keysMax) return undefined
    const incarnation = this.#cells.isBucket ? this.#newStamp(times) : this.#settings.incarnation
    return emptyRow(cell, incarnation, this.#names.length, times.steadyMs)
  }

  /** A bucket that was idle until it drained starts another incarnation of its own entry. */
  #renewed(row: SharedRow | undefined, times: RegionTimes): SharedRow | undefined {
    if (row === undefined || !this.#cells.isBucket) return row
    if (times.steadyMs - row.changedMs < lastsMs(this.#settings.limit)) return row
    const own = ownEntry(row, this.#costs.self)
    const left = this.#without(row, own === undefined ? [] : [own])
    const { acks } = emptyRow(0, '', this.#names.length, 0)
    return { ...left, acks, incarnation: this.#newStamp(times) }
  }

  #newStamp(times: RegionTimes): string {
    this.#stamp = nextStamp(this.#stamp, times.storeMs)
    return stampText(this.#stamp)
  }

  #keep(key: string, row: SharedRow, times: RegionTimes, isChanged = true): SharedRow {
    const kept = isChanged ? { ...row, changedMs: times.steadyMs } : row
    this.#replace(key, kept)
    if (isChanged) this.#peers.markDirty(key)
    return kept
  }

  #replace(key: string, row: SharedRow): void {
    this.#changed.add(key)
    const others = (this.#rows.get(key) ?? []).filter(({ cell }) => cell !== row.cell)
    this.#rows.set(key, [...others, row])
  }

  #dropOld(times: RegionTimes): void {
    if (times.steadyMs - this.#droppedMs < DROP_EVERY_MS) return
    this.#droppedMs = times.steadyMs
    // Peers may still send the old incarnation for as long as it lasts.
    const idleMs = 2 * lastsMs(this.#settings.limit) + defaults.suspectAfterMs
    for (const [key, rows] of this.#rows) {
      const left = rows.filter(({ cell, changedMs }) =>
        this.#cells.isBucket
          ? times.steadyMs - changedMs < idleMs
          : this.#cells.isKept(cell, times.storeMs),
      )
      if (left.length === 0) this.#rows.delete(key)
      else if (left.length < rows.length) this.#rows.set(key, left)
    }
  }

  #forgetEchoes(peer: number): void {
    for (const [key, rows] of this.#rows) {
      const cleared = rows.map((row) => ({ ...row, echoes: row.echoes.with(peer, []) }))
      this.#rows.set(key, cleared)
      this.#peers.markDirty(key)
    }
  }
}
