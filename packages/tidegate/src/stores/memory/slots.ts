/**
 * The keys that the memory store keeps: a bounded number of slots. A slot has a key, a state, when
 * it expires, and until when it was or will be of use. The slots of each limit form a ring, so that
 * a limit can lose a slot of its own.
 *
 * Invariants: a limit that holds no more than its share, `slotsMax` divided by the limits in use,
 * loses no slot and always gets one. A slot that blocks a client is evicted only to give another
 * limit its share. No call visits more than a fixed number of slots. Memory is bounded by
 * `slotsMax`. Slots that expire are given back by new keys and, if they are many, by a timer.
 */

import { repeat } from '../../clock.ts'
import {
  ACTIVE_AT,
  CELLS,
  EXPIRES_AT,
  LINKS,
  NEXT,
  PAGE_BITS,
  PAGE_MASK,
  PAGE_SLOTS,
  type Page,
  Pages,
  PREVIOUS,
  setObject,
  type Table,
} from './pages.ts'

/** Slots that each new key checks: expired slots are freed faster than new keys arrive. */
const SWEEP_STEPS = 4

/** A key that expired only just now is likely to come again, and cheaper to keep than to make. */
const SWEEP_GRACE_MS = 1_000

/**
 * With more pages than this, some 3 MB with their keys, a timer looks for expired slots as well, so
 * that the memory of a flood returns although no new keys come.
 */
const IDLE_PAGES_MAX = 64

/**
 * The timer checks 16 pages every 100 ms: at most 4,096 slots, which takes 2 ms if all of them
 * have expired and 0.1 ms otherwise. A million slots take 25 s.
 */
const SWEEP_PAGES = 16
const SWEEP_INTERVAL_MS = 100

/** The slots of a page that has no more than these left move to another page. */
const SPARSE_SLOTS_MAX = PAGE_SLOTS / 4

/**
 * Slots compared for a victim; the longest idle of 16 is, nearly always, of the idlest fifth. If
 * too many block clients to find 16, the search continues up to the second number, which still
 * takes tens of microseconds: with 99 % of all slots blocking, one search in 10^17 is in vain.
 */
const EVICTION_SAMPLE = 16
const EVICTION_STEPS_MAX = 4096

/** If a blocking slot may go as well: an idle one is found if one in 50 is idle, nearly always. */
const SHARE_STEPS_MAX = 256

export class Slots {
  readonly #pages = new Pages()
  readonly #slotsMax: number
  readonly #now: () => number
  /** Limits that have a slot. */
  readonly #tables = new Set<Table>()
  /** The limit that had the most slots when it was looked for. */
  #largest: Table | undefined
  #sweepAt = 0
  #stopSweeping: (() => void) | undefined

  constructor(slotsMax: number, now: () => number) {
    this.#slotsMax = slotsMax
    this.#now = now
  }

  /** Slots in use. */
  get size(): number {
    return this.#pages.size
  }

  /** Pages by number; always the same array. */
  get pages(): ReadonlyArray<Page | undefined> {
    return this.#pages.list
  }

  /**
   * A slot for a new key. Undefined if the limit holds its share, and every slot that it may take
   * blocks a client, of those that were looked at.
   */
  take(table: Table, key: string, now: number): number | undefined {
    this.#sweep(now)
    const isFull = this.#pages.size >= this.#slotsMax
    const slot = isFull ? this.#evict(table, now) : this.#pages.take()
    if (slot === undefined) return undefined
    if (this.#stopSweeping === undefined && this.#pages.count > IDLE_PAGES_MAX) this.#start()
    const page = this.page(slot)
    page.keys[slot & PAGE_MASK] = key
    page.tables[slot & PAGE_MASK] = table
    table.slotOf.add(key, slot)
    this.#link(table, slot)
    return slot
  }

  /** Forgets the slot's key; the slot is free for another. */
  drop(slot: number): void {
    this.#clear(slot)
    this.#pages.release(slot)
  }

  /** True if this many more keys fit without an eviction. */
  hasRoom(keys: number): boolean {
    return this.#pages.size + keys <= this.#slotsMax
  }

  /** Keeps a slot from being taken away until it is written. The result undoes it. */
  pin(slot: number): () => void {
    const { cells } = this.page(slot)
    const at = (slot & PAGE_MASK) * CELLS
    const times = [cells[at + EXPIRES_AT] as number, cells[at + ACTIVE_AT] as number] as const
    cells[at + EXPIRES_AT] = Infinity
    cells[at + ACTIVE_AT] = Infinity
    return () => cells.set(times, at + EXPIRES_AT)
  }

  page(slot: number): Page {
    return this.#pages.of(slot)
  }

  close(): void {
    this.#stopSweeping?.()
    this.#stopSweeping = undefined
  }

  /** Checks the next few slots and frees those that have expired. */
  #sweep(now: number): void {
    for (let step = Math.min(SWEEP_STEPS, this.#pages.size); step > 0; step--) {
      const at = this.#sweepAt >> PAGE_BITS
      const page = this.pages[at]
      if (page === undefined) {
        this.#sweepAt = at >= this.pages.length ? 0 : (at + 1) << PAGE_BITS
        continue
      }
      this.#dropIfExpired(page, this.#sweepAt++ & PAGE_MASK, now)
    }
  }

  /** Does not keep the process alive, nor a store that is not in use any more. */
  #start(): void {
    const slots = new WeakRef(this)
    const stop = repeat(() => {
      const current = slots.deref()
      if (current === undefined) stop()
      else current.#sweepPages()
    }, SWEEP_INTERVAL_MS)
    this.#stopSweeping = stop
  }

  /** Frees the expired slots of the next few pages, and pages that have few others. */
  #sweepPages(): void {
    const now = Math.floor(this.#now())
    for (let step = 0; step < SWEEP_PAGES; step++) {
      const at = this.#sweepAt >> PAGE_BITS
      const page = this.pages[at]
      this.#sweepAt = at >= this.pages.length ? 0 : (at + 1) << PAGE_BITS
      if (page === undefined) continue
      for (let index = 0; index < PAGE_SLOTS; index++) this.#dropIfExpired(page, index, now)
      if (page.used <= SPARSE_SLOTS_MAX) this.#empty(page)
    }
    if (this.#pages.count <= IDLE_PAGES_MAX) this.close()
  }

  #dropIfExpired(page: Page, index: number, now: number): void {
    if (page.tables[index] === undefined) return
    const expiresAt = page.cells[index * CELLS + EXPIRES_AT] as number
    if (expiresAt + SWEEP_GRACE_MS <= now) this.drop((page.at << PAGE_BITS) | index)
  }

  /** Moves the slots of a page into other pages that have room. */
  #empty(page: Page): void {
    for (let index = 0; index < PAGE_SLOTS && page.used > 0; index++) {
      if (page.tables[index] === undefined) continue
      const slot = this.#pages.take(page)
      if (slot === undefined) return
      this.#move((page.at << PAGE_BITS) | index, slot)
    }
  }

  #move(from: number, to: number): void {
    const [source, target] = [this.page(from), this.page(to)]
    const [index, at] = [from & PAGE_MASK, to & PAGE_MASK]
    const table = source.tables[index] as Table
    const key = source.keys[index] as string
    target.cells.set(source.cells.subarray(index * CELLS, (index + 1) * CELLS), at * CELLS)
    target.objects = setObject(target.objects, at, source.objects?.[index])
    target.holds = setObject(target.holds, at, source.holds?.[index])
    target.keys[at] = key
    target.tables[at] = table
    this.drop(from)
    table.slotOf.add(key, to)
    this.#link(table, to)
  }

  /** Frees a slot of a limit that holds more than its share, the limit of the new key included. */
  #evict(taker: Table, now: number): number | undefined {
    const share = this.#slotsMax / (this.#tables.size + (taker.size === 0 ? 1 : 0))
    if (taker.size + 1 <= share) return this.#evictOf(this.#giver(share), now, true)
    return this.#evictOf(taker, now, false) ?? this.#evictOf(this.#giver(share), now, false)
  }

  /**
   * A limit with more than its share. There is one if another limit has less. Looks at every limit,
   * which are few, only after the last one found has come down to its share.
   */
  #giver(share: number): Table | undefined {
    if (this.#largest === undefined || this.#largest.size <= share) {
      for (const table of this.#tables) {
        if (table.size > (this.#largest?.size ?? 0)) this.#largest = table
      }
    }
    return this.#largest !== undefined && this.#largest.size > share ? this.#largest : undefined
  }

  /**
   * Frees an expired slot of the limit or, of a few that block no client, the one that was idle the
   * longest. If all block, frees the one that blocks for the shortest time, or none.
   */
  #evictOf(table: Table | undefined, now: number, mayBlock: boolean): number | undefined {
    if (table === undefined) return undefined
    let victim: number | undefined
    let victimActiveAt = mayBlock ? Infinity : now + 1
    let sampled = 0
    const steps = Math.min(mayBlock ? SHARE_STEPS_MAX : EVICTION_STEPS_MAX, table.size)
    for (let step = 0; step < steps && sampled < EVICTION_SAMPLE; step++) {
      const slot = table.hand
      table.hand = this.#linked(slot, NEXT)
      const expiresAt = this.#cell(slot, EXPIRES_AT)
      const isExpired = expiresAt <= now
      const activeAt = isExpired ? -Infinity : Math.min(this.#cell(slot, ACTIVE_AT), expiresAt)
      if (activeAt < victimActiveAt) [victim, victimActiveAt] = [slot, activeAt]
      if (isExpired) sampled = EVICTION_SAMPLE
      else if (activeAt <= now) sampled++
    }
    if (victim !== undefined) this.#clear(victim)
    return victim
  }

  #clear(slot: number): void {
    const page = this.page(slot)
    const index = slot & PAGE_MASK
    const table = page.tables[index]
    if (table !== undefined) {
      table.slotOf.delete(page.keys[index] as string)
      this.#unlink(table, slot)
    }
    page.tables[index] = undefined
    page.keys[index] = ''
    page.cells.fill(0, index * CELLS, (index + 1) * CELLS)
    if (page.objects !== undefined) page.objects[index] = undefined
    if (page.holds !== undefined) page.holds[index] = undefined
  }

  /** Puts a slot into the ring of its limit, the last that the hand comes to. */
  #link(table: Table, slot: number): void {
    if (table.size++ === 0) {
      this.#tables.add(table)
      table.hand = slot
      this.#join(slot, slot)
      return
    }
    const last = this.#linked(table.hand, PREVIOUS)
    this.#join(last, slot)
    this.#join(slot, table.hand)
  }

  #unlink(table: Table, slot: number): void {
    const next = this.#linked(slot, NEXT)
    this.#join(this.#linked(slot, PREVIOUS), next)
    if (table.hand === slot) table.hand = next
    if (--table.size === 0) this.#tables.delete(table)
  }

  #join(slot: number, next: number): void {
    this.page(slot).links[(slot & PAGE_MASK) * LINKS + NEXT] = next
    this.page(next).links[(next & PAGE_MASK) * LINKS + PREVIOUS] = slot
  }

  #linked(slot: number, link: number): number {
    return this.page(slot).links[(slot & PAGE_MASK) * LINKS + link] as number
  }

  #cell(slot: number, cell: number): number {
    return this.page(slot).cells[(slot & PAGE_MASK) * CELLS + cell] as number
  }
}
