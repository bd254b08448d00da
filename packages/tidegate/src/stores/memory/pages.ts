/**
 * Slots in pages of plain columns, no object per key. A page is made when all others are full, and
 * given back when its last slot is released, so that the memory of a flood returns.
 *
 * Invariant: there are no more pages than the slots in use at one time have needed. New slots come
 * from the page that has had room for the longest time. So a page that is being emptied is not
 * filled again meanwhile.
 */

import type { Holds } from '../../algorithms/holds.ts'
import { STATE_CELLS } from './cells.ts'
import type { KeyIndex } from './key-index.ts'

/** The counters of one limit: where each key's slot is. */
export interface Table {
  readonly slotOf: KeyIndex
  /** Slots in use; expired ones count until they are reclaimed. */
  size: number
  /** The slot of the ring that an eviction looks at next. Without meaning if `size` is 0. */
  hand: number
}

export interface Page {
  readonly at: number
  /** CELLS numbers for each slot: its state, then EXPIRES_AT and ACTIVE_AT. */
  readonly cells: Float64Array
  /** LINKS numbers for each slot: the next and the previous one of its limit, or the next free. */
  readonly links: Int32Array
  readonly keys: string[]
  readonly tables: Array<Table | undefined>
  /** States that are not numbers; made when the first one comes. */
  objects: Array<object | undefined> | undefined
  holds: Array<Holds | undefined> | undefined
  /** Slots in use. */
  used: number
  /** The first free slot of the page, as an index. */
  free: number
  /** Neighbours among the pages with room. */
  before: Page | undefined
  after: Page | undefined
}

/** 256 slots are some 16 KB: little for an application with few clients. */
export const PAGE_BITS = 8
export const PAGE_SLOTS = 1 << PAGE_BITS
export const PAGE_MASK = PAGE_SLOTS - 1

/** From here on, the slot's state is as good as absent. */
export const EXPIRES_AT = STATE_CELLS
/** When the slot was last used or, if that lies ahead, until when it blocks a client. */
export const ACTIVE_AT = STATE_CELLS + 1
export const CELLS = STATE_CELLS + 2

/** Columns of `links`. */
export const LINKS = 2
export const NEXT = 0
export const PREVIOUS = 1

export class Pages {
  /** By number; undefined for one that was given back. Stays the same array. */
  readonly list: Array<Page | undefined> = []
  /** Numbers of pages that were given back. */
  readonly #unused: number[] = []
  /** The pages with room: the first is filled next, the last got room most recently. */
  #first: Page | undefined
  #last: Page | undefined
  /** Slots in use. */
  size = 0

  /** Pages in memory. */
  get count(): number {
    return this.list.length - this.#unused.length
  }

  of(slot: number): Page {
    return this.list[slot >> PAGE_BITS] as Page
  }

  /** A free slot, in another page than `other` if it is given; undefined if there is none then. */
  take(other?: Page): number | undefined {
    const first = this.#first === other ? other?.after : this.#first
    const page = first ?? (other === undefined ? this.#grow() : undefined)
    if (page === undefined) return undefined
    const index = page.free
    page.free = page.links[index * LINKS + NEXT] as number
    page.used++
    this.size++
    if (page.used === PAGE_SLOTS) this.#unlink(page)
    return (page.at << PAGE_BITS) | index
  }

  /** Takes back a slot that was cleared. */
  release(slot: number): void {
    const page = this.of(slot)
    const index = slot & PAGE_MASK
    page.links[index * LINKS + NEXT] = page.free
    page.free = index
    this.size--
    if (page.used-- === PAGE_SLOTS) this.#link(page)
    if (page.used > 0) return
    this.#unlink(page)
    this.list[page.at] = undefined
    this.#unused.push(page.at)
  }

  #grow(): Page {
    const page = newPage(this.#unused.pop() ?? this.list.length)
    this.list[page.at] = page
    this.#link(page)
    return page
  }

  #link(page: Page): void {
    page.before = this.#last
    if (this.#last === undefined) this.#first = page
    else this.#last.after = page
    this.#last = page
  }

  #unlink(page: Page): void {
    const { before, after } = page
    if (before === undefined) this.#first = after
    else before.after = after
    if (after === undefined) this.#last = before
    else after.before = before
    page.before = undefined
    page.after = undefined
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

function newPage(at: number): Page {
  const links = new Int32Array(PAGE_SLOTS * LINKS)
  for (let index = 0; index < PAGE_SLOTS; index++) links[index * LINKS + NEXT] = index + 1
  return {
    at,
    cells: new Float64Array(PAGE_SLOTS * CELLS),
    links,
    keys: new Array<string>(PAGE_SLOTS).fill(''),
    tables: new Array<Table | undefined>(PAGE_SLOTS).fill(undefined),
    objects: undefined,
    holds: undefined,
    used: 0,
    free: 0,
    before: undefined,
    after: undefined,
  }
}
