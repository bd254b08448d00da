/**
 * The memory of the memory store: a bounded number of slots in pages of plain columns, no object
 * per key. A slot knows its key, its state, when it expires, and until when it was or will be of
 * use.
 *
 * Invariants: a slot that blocks somebody is never evicted; no call looks at more than a fixed
 * number of slots. Memory is bounded by `slotsMax`, and given back by reuse.
 */

import type { Holds } from '../../algorithms/holds.ts'
import { STATE_CELLS } from './cells.ts'
import type { KeyIndex } from './key-index.ts'

/** The counters of one limit: where each key's slot is. */
export interface Table {
  readonly slotOf: KeyIndex
}

export interface Page {
  /** CELLS numbers for each slot: its state, then EXPIRES_AT and ACTIVE_AT. */
  readonly cells: Float64Array
  readonly keys: string[]
  readonly tables: Array<Table | undefined>
  /** States that are not numbers; made when the first one comes. */
  objects: Array<object | undefined> | undefined
  holds: Array<Holds | undefined> | undefined
}

/** 256 slots are some 14 KB: little for an application with few clients. */
export const PAGE_BITS = 8
const PAGE_SLOTS = 1 << PAGE_BITS
export const PAGE_MASK = PAGE_SLOTS - 1

/** From here on, the slot's state is as good as absent. */
export const EXPIRES_AT = STATE_CELLS
/** When the slot was last used or, where that lies ahead, until when it blocks somebody. */
export const ACTIVE_AT = STATE_CELLS + 1
export const CELLS = STATE_CELLS + 2

/** A new key looks at this many slots for expired ones: they go faster than new ones come. */
const SWEEP_STEPS = 4

/** A key that expired only just now is likely to come again, and cheaper to keep than to make. */
const SWEEP_GRACE_MS = 1_000

/**
 * Slots compared for a victim; the longest idle of 16 is, nearly always, of the idlest fifth. Where
 * so many block somebody that 16 are not found, the search goes on to the second number, which
 * still takes only tens of microseconds: with 99 % of all slots blocking, one search in 10^17 is in
 * vain.
 */
const EVICTION_SAMPLE = 16
const EVICTION_STEPS_MAX = 4096

export class Slots {
  readonly pages: Page[] = []
  readonly #slotsMax: number
  readonly #free: number[] = []
  #used = 0
  #sweepAt = 0
  #evictAt = 0

  constructor(slotsMax: number) {
    this.#slotsMax = slotsMax
  }

  /** Slots in use. */
  get size(): number {
    return this.#used - this.#free.length
  }

  /** A slot for a new key, or undefined if every slot that was looked at blocks somebody. */
  take(table: Table, key: string, now: number): number | undefined {
    this.#sweep(now)
    const slot = this.#free.pop() ?? this.#grow() ?? this.#evict(now)
    if (slot === undefined) return undefined
    const page = this.page(slot)
    page.keys[slot & PAGE_MASK] = key
    page.tables[slot & PAGE_MASK] = table
    table.slotOf.add(key, slot)
    return slot
  }

  /** Forgets the slot's key; the slot is free for another. */
  drop(slot: number): void {
    this.#clear(slot)
    this.#free.push(slot)
  }

  page(slot: number): Page {
    return this.pages[slot >> PAGE_BITS] as Page
  }

  /** Looks at the next few slots and frees those that have expired. */
  #sweep(now: number): void {
    for (let step = Math.min(SWEEP_STEPS, this.#used); step > 0; step--) {
      if (this.#sweepAt >= this.#used) this.#sweepAt = 0
      const slot = this.#sweepAt++
      const isTaken = this.page(slot).tables[slot & PAGE_MASK] !== undefined
      if (isTaken && this.#cell(slot, EXPIRES_AT) + SWEEP_GRACE_MS <= now) this.drop(slot)
    }
  }

  #grow(): number | undefined {
    if (this.#used >= this.#slotsMax) return undefined
    if (this.#used >> PAGE_BITS === this.pages.length) this.pages.push(newPage())
    return this.#used++
  }

  /** Frees an expired slot or, of a few that block nobody, the one that was idle the longest. */
  #evict(now: number): number | undefined {
    let victim: number | undefined
    let victimActiveAt = Infinity
    let sampled = 0
    const steps = Math.min(EVICTION_STEPS_MAX, this.#used)
    for (let step = 0; step < steps && sampled < EVICTION_SAMPLE; step++) {
      if (this.#evictAt >= this.#used) this.#evictAt = 0
      const slot = this.#evictAt++
      const isExpired = this.#cell(slot, EXPIRES_AT) <= now
      const activeAt = isExpired ? -Infinity : this.#cell(slot, ACTIVE_AT)
      if (activeAt > now) continue
      sampled = isExpired ? EVICTION_SAMPLE : sampled + 1
      if (activeAt < victimActiveAt) [victim, victimActiveAt] = [slot, activeAt]
    }
    if (victim !== undefined) this.#clear(victim)
    return victim
  }

  #clear(slot: number): void {
    const page = this.page(slot)
    const index = slot & PAGE_MASK
    page.tables[index]?.slotOf.delete(page.keys[index] as string)
    page.tables[index] = undefined
    page.keys[index] = ''
    page.cells.fill(0, index * CELLS, (index + 1) * CELLS)
    if (page.objects !== undefined) page.objects[index] = undefined
    if (page.holds !== undefined) page.holds[index] = undefined
  }

  #cell(slot: number, cell: number): number {
    return this.page(slot).cells[(slot & PAGE_MASK) * CELLS + cell] as number
  }
}

/** For states and holds that are objects: a page has the column once its first object comes. */
export function setObject<T>(
  column: Array<T | undefined> | undefined,
  index: number,
  value: T | undefined,
): Array<T | undefined> | undefined {
  if (column === undefined && value === undefined) return undefined
  const filled = column ?? new Array<T | undefined>(PAGE_SLOTS).fill(undefined)
  filled[index] = value
  return filled
}

function newPage(): Page {
  return {
    cells: new Float64Array(PAGE_SLOTS * CELLS),
    keys: new Array<string>(PAGE_SLOTS).fill(''),
    tables: new Array<Table | undefined>(PAGE_SLOTS).fill(undefined),
    objects: undefined,
    holds: undefined,
  }
}
