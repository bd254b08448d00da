import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sizes } from '../../../../../test/support/suite.ts'
import { KeyIndex } from './key-index.ts'
import { ACTIVE_AT, CELLS, EXPIRES_AT, PAGE_MASK, type Table } from './pages.ts'
import { Slots } from './slots.ts'

/** What a model of the slots knows of one of them. */
interface Kept {
  readonly table: Table
  readonly key: string
  readonly slot: number
  activeAt: number
  expiresAt: number
}

type Step =
  | { readonly type: 'take'; readonly limit: number; readonly blocksMs: number; lifetimeMs: number }
  | { readonly type: 'use'; readonly pick: number; readonly blocksMs: number }
  | { readonly type: 'drop'; readonly pick: number }
  | { readonly type: 'wait'; readonly ms: number }

const LIMITS = 4
const LONG_MS = 1_000_000

const blocksMs = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 5_000 }))
const lifetimeMs = fc.oneof({ weight: 4, arbitrary: fc.constant(LONG_MS) }, fc.nat({ max: 9_000 }))
const limit = fc.oneof(fc.constant(0), fc.nat({ max: LIMITS - 1 }))
const pick = fc.nat({ max: 1_000 })
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ type: fc.constant('take'), limit, blocksMs, lifetimeMs }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('use'), pick, blocksMs }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('drop'), pick }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('wait'), ms: fc.nat({ max: 3_000 }) }) },
) as fc.Arbitrary<Step>

/** A few slots, so that a search looks at all of a limit and its outcome is known exactly. */
const slotsMax = fc.integer({ min: 1, max: 16 })

class Model {
  readonly slots: Slots
  readonly #slotsMax: number
  readonly #tables: readonly Table[]
  #kept: Kept[] = []
  #now = 1_000
  #keys = 0

  constructor(slotsMax: number) {
    this.slots = new Slots(slotsMax, () => this.#now)
    this.#slotsMax = slotsMax
    this.#tables = Array.from({ length: LIMITS }, newTable)
  }

  run(step: Step): void {
    if (step.type === 'wait') this.#now += step.ms
    else if (step.type === 'take') this.#take(step)
    else this.#change(step)
    this.#compare()
  }

  #take({ limit, blocksMs, lifetimeMs }: Extract<Step, { type: 'take' }>): void {
    const table = this.#tables[limit] as Table
    const before = this.#kept
    const key = `key ${this.#keys++}`
    const slot = this.slots.take(table, key, this.#now)
    const lost = before.filter((one) => one.table.slotOf.get(one.key) !== one.slot)
    this.#kept = before.filter((one) => !lost.includes(one))
    this.#judge(table, before, lost, slot)
    if (slot === undefined) return
    const kept = { table, key, slot, activeAt: 0, expiresAt: this.#now + lifetimeMs }
    this.#kept.push(kept)
    this.#write(kept, blocksMs)
  }

  /** Whether a slot had to be lost, and whether it was the right one. */
  #judge(taker: Table, before: Kept[], lost: Kept[], slot: number | undefined): void {
    const live = lost.filter(({ expiresAt }) => expiresAt > this.#now)
    const isFull = before.length === this.#slotsMax
    if (!isFull || lost.length > live.length) {
      expect(live).toEqual([])
      expect(slot).toBeDefined()
      return
    }
    const sizeOf = (table: Table) => before.filter((one) => one.table === table).length
    const inUse = new Set([taker, ...before.map(({ table }) => table)])
    const share = this.#slotsMax / inUse.size
    const isWithinShare = sizeOf(taker) + 1 <= share
    const isIdle = ({ activeAt, expiresAt }: Kept) => Math.min(activeAt, expiresAt) <= this.#now
    const mayGive = before.filter(
      (one) => sizeOf(one.table) > share || (!isWithinShare && one.table === taker),
    )
    if (isWithinShare) expect(slot).toBeDefined()
    const own = mayGive.filter((one) => one.table === taker && isIdle(one))
    const victim = live[0]
    if (slot === undefined || victim === undefined) {
      expect(own).toEqual([])
      expect(slot).toBeUndefined()
      return
    }
    expect(live).toHaveLength(1)
    expect(mayGive).toContain(victim)
    if (own.length > 0) expect(victim.table).toBe(taker)
    if (!isWithinShare) expect(isIdle(victim)).toBe(true)
    const others = before.filter((one) => one.table === victim.table)
    const earliest = Math.min(...others.map((one) => Math.min(one.activeAt, one.expiresAt)))
    expect(Math.min(victim.activeAt, victim.expiresAt)).toBe(earliest)
  }

  #change(step: Extract<Step, { type: 'use' | 'drop' }>): void {
    const one = this.#kept[step.pick % this.#kept.length]
    if (one === undefined) return
    if (step.type === 'use') {
      this.#write(one, step.blocksMs)
      return
    }
    this.slots.drop(one.slot)
    this.#kept = this.#kept.filter((other) => other !== one)
  }

  #write(one: Kept, blocksMs: number): void {
    one.activeAt = this.#now + blocksMs
    const { cells } = this.slots.page(one.slot)
    cells[(one.slot & PAGE_MASK) * CELLS + EXPIRES_AT] = one.expiresAt
    cells[(one.slot & PAGE_MASK) * CELLS + ACTIVE_AT] = one.activeAt
  }

  #compare(): void {
    expect(this.slots.size).toBe(this.#kept.length)
    for (const { table, key, slot } of this.#kept) expect(table.slotOf.get(key)).toBe(slot)
    for (const table of this.#tables) {
      expect(table.size).toBe(this.#kept.filter((one) => one.table === table).length)
    }
  }
}

function newTable(): Table {
  return { slotOf: new KeyIndex(), size: 0, hand: 0 }
}

describe('slots', () => {
  it('takes from limits above their share only, the idle first', () => {
    const steps = fc.array(step, { maxLength: 200 })
    const property = fc.property(slotsMax, steps, (max, history) => {
      const model = new Model(max)
      for (const one of history) model.run(one)
    })
    fc.assert(property, { numRuns: 5 * sizes.randomRuns })
  })

  it('keeps every counter of a limit within its share while another limit floods', () => {
    const slots = new Slots(10_000, () => 0)
    const [small, flooded] = [newTable(), newTable()]
    for (let at = 0; at < 5_000; at++) fill(slots, small, `small ${at}`, at)
    for (let at = 0; at < 100_000; at++) fill(slots, flooded, `flood ${at}`, 5_000 + at)
    expect([small.size, flooded.size]).toEqual([5_000, 5_000])
    for (let at = 0; at < 5_000; at++) expect(small.slotOf.get(`small ${at}`)).toBeDefined()
  })

  it('gives a limit its share from one whose counters all block', () => {
    const slots = new Slots(10_000, () => 0)
    const [flooded, late] = [newTable(), newTable()]
    for (let at = 0; at < 10_000; at++) fill(slots, flooded, `flood ${at}`, 1, LONG_MS)
    for (let at = 0; at < 5_000; at++) {
      expect(fill(slots, late, `late ${at}`, 1, LONG_MS)).toBeDefined()
    }
    expect(fill(slots, late, 'one more', 1, LONG_MS)).toBeUndefined()
    expect([flooded.size, late.size]).toEqual([5_000, 5_000])
  })
})

function fill(slots: Slots, table: Table, key: string, now: number, blocksMs = 0) {
  const slot = slots.take(table, key, now)
  if (slot === undefined) return undefined
  const { cells } = slots.page(slot)
  cells[(slot & PAGE_MASK) * CELLS + EXPIRES_AT] = now + LONG_MS
  cells[(slot & PAGE_MASK) * CELLS + ACTIVE_AT] = now + blocksMs
  return slot
}
