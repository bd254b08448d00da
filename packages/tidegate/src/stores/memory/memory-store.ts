/**
 * The memory store: the embedded default, and the reference for the decisions of other stores. A
 * call is atomic because nothing else runs in between.
 *
 * Bounded by `keysMax`. When it is full, an idle key of a limit that holds more than its share is
 * evicted. If there is none, the limit's `onOverload` decides about the new key. By default it is
 * refused, so that a lack of memory never exceeds a limit.
 */

import type { Algorithm, AlgorithmName } from '../../algorithms/algorithm.ts'
import { expireHolds, type Holds } from '../../algorithms/holds.ts'
import { algorithmNamed, type Limit } from '../../algorithms/limit.ts'
import { type Clock, systemClock } from '../../clock.ts'
import type { Decision } from '../../decision.ts'
import { checkOptions, checkWhole } from '../../options.ts'
import { shedDecision } from '../guarded/fallback-decisions.ts'
import type { Adjustment, Charge, ChargeMode, Counter, Store } from '../store.ts'
import { type Codec, codecOf, STATE_CELLS } from './cells.ts'
import {
  adjusted,
  blocksForMs,
  decide,
  decideGroup,
  isEmpty,
  type Outcome,
  peekGroup,
  settled,
  type Usage,
} from './decide.ts'
import { KeyIndex } from './key-index.ts'
import {
  ACTIVE_AT,
  CELLS,
  EXPIRES_AT,
  PAGE_BITS,
  PAGE_MASK,
  type Page,
  setObject,
  type Table,
} from './pages.ts'
import { Slots } from './slots.ts'

export interface MemoryStoreOptions {
  /** Keys kept at once. Default: one million, at most 120 MB and the texts of the keys. */
  readonly keysMax?: number
  /** Default: the system's. */
  readonly clock?: Clock
}

/** A store that answers immediately, and reports its size. */
export interface MemoryStore extends Store {
  readonly isRemote: false
  charge(group: readonly Charge[], mode: ChargeMode): readonly Decision[]
  chargeOne(counter: Counter, cost: number): Decision
  adjust(group: readonly Adjustment[]): readonly Decision[]
  reset(group: readonly Counter[]): void
  close(): void
  /** Number of keys; expired ones count until they are reclaimed. */
  readonly size: number
}

const KEYS_MAX_DEFAULT = 1_000_000

/** A Map of V8 ends at 2^24 entries. */
const KEYS_MAX_MAX = 2 ** 24 - 1

/** For a state that never drains, because its limit is 0 now. */
const LIFETIME_MS_MAX = 400 * 86_400_000

const NO_HOLDS: Holds = []

interface LimitTable extends Table {
  readonly algorithmName: AlgorithmName
  readonly algorithm: Algorithm<Limit, object>
  readonly codec: Codec | undefined
}

/** A counter as found: nothing is used or held if the key is new. */
interface Found extends Usage {
  readonly table: LimitTable
  readonly key: string
}

export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  checkOptions(options, 'memoryStore', ['keysMax', 'clock'])
  const { keysMax = KEYS_MAX_DEFAULT, clock = systemClock } = options
  return new Memory(checkWhole(keysMax, 'memoryStore.keysMax', 1, KEYS_MAX_MAX), clock)
}

class Memory implements MemoryStore {
  readonly isRemote = false
  readonly capabilities = { leases: true }
  readonly #clock: Clock
  readonly #slots: Slots
  readonly #tables = new Map<string, Map<AlgorithmName, LimitTable>>()
  /** The table of the last single charge: most stores have one limit. */
  #last: LimitTable | undefined
  #lastName = ''

  constructor(keysMax: number, clock: Clock) {
    this.#clock = clock
    this.#slots = new Slots(keysMax, () => clock.now())
  }

  get size(): number {
    return this.#slots.size
  }

  chargeOne({ name, limit, key }: Counter, cost: number): Decision {
    const table = this.#lastTable(name, limit.algorithm)
    const { slotOf, algorithm, codec } = table
    const now = Math.floor(this.#clock.now())
    const slot = slotOf.get(key)
    if (slot !== undefined && codec !== undefined) {
      const page = this.#slots.pages[slot >> PAGE_BITS] as Page
      const at = (slot & PAGE_MASK) * CELLS
      if (page.holds === undefined) {
        return chargeRow(page.cells, at, algorithm, codec, limit, cost, now)
      }
    }
    const found = this.#find(table, limit, key, now)
    const { state, decision } = decide(found, cost, now)
    return this.#keep(found, { ...found, state }, decision, now)
  }

  charge(group: readonly Charge[], mode: ChargeMode): readonly Decision[] {
    const now = Math.floor(this.#clock.now())
    const found = group.map((charge) => {
      const counter = this.#findCounter(charge, now)
      return charge.settles === undefined || mode === 'peek'
        ? counter
        : { ...counter, ...settled(counter, charge, now) }
    })
    if (mode === 'peek') return peekGroup(group, found, now)
    const outcomes = decideGroup(group, found, mode, now)
    const roomless = this.#makeRoom(found, outcomes, now)
    if (roomless !== undefined) return shedGroup(group, found, roomless, now)
    return outcomes.map(({ usage, decision }, at) =>
      this.#keep(found[at] as Found, usage, decision, now),
    )
  }

  adjust(group: readonly Adjustment[]): readonly Decision[] {
    const now = Math.floor(this.#clock.now())
    return group.map((adjustment) => {
      const found = this.#findCounter(adjustment, now)
      const { usage, decision } = adjusted(found, adjustment, now)
      return this.#keep(found, usage, decision, now)
    })
  }

  reset(group: readonly Counter[]): void {
    for (const { name, limit, key } of group) {
      this.#forget(this.#table(name, limit.algorithm), key)
    }
  }

  close(): void {
    this.#slots.close()
    this.#tables.clear()
    this.#last = undefined
  }

  /**
   * Takes slots for the new keys of a group before anything is charged, so that a group is charged
   * as a whole or not at all. Returns the index of a charge that has no room.
   */
  #makeRoom(
    found: readonly Found[],
    outcomes: readonly Outcome[],
    now: number,
  ): number | undefined {
    if (this.#slots.hasRoom(found.length)) return undefined
    if (!outcomes.every(({ decision }) => decision.allowed)) return undefined
    const undo: (() => void)[] = []
    for (const { table, key } of found) {
      const slot = table.slotOf.get(key)
      if (slot !== undefined) undo.push(this.#slots.pin(slot))
    }
    // The largest limits first: they are the ones that may find no room, before others take any.
    const order = [...found.keys()].sort((one, other) => sizeAt(found, other) - sizeAt(found, one))
    for (const at of order) {
      const { table, key, limit } = found[at] as Found
      if (isEmpty((outcomes[at] as Outcome).usage)) continue
      if (table.slotOf.get(key) !== undefined) continue
      const slot = this.#slots.take(table, key, now)
      if (slot !== undefined) {
        this.#slots.pin(slot)
        undo.push(() => this.#slots.drop(slot))
      } else if (limit.onOverload !== 'open') {
        for (const step of undo) step()
        return at
      }
    }
    return undefined
  }

  #lastTable(name: string, algorithm: AlgorithmName): LimitTable {
    const last = this.#last
    if (last !== undefined && name === this.#lastName && algorithm === last.algorithmName)
      return last
    this.#last = this.#table(name, algorithm)
    this.#lastName = name
    return this.#last
  }

  #table(name: string, algorithm: AlgorithmName): LimitTable {
    const ofName = this.#tables.get(name) ?? new Map<AlgorithmName, LimitTable>()
    const known = ofName.get(algorithm)
    if (known !== undefined) return known
    const table = {
      slotOf: new KeyIndex(),
      size: 0,
      hand: 0,
      algorithmName: algorithm,
      algorithm: algorithmNamed(algorithm),
      codec: codecOf(algorithm),
    }
    this.#tables.set(name, ofName.set(algorithm, table))
    return table
  }

  #forget(table: LimitTable, key: string): void {
    const slot = table.slotOf.get(key)
    if (slot !== undefined) this.#slots.drop(slot)
  }

  #findCounter({ name, limit, key }: Counter, now: number): Found {
    return this.#find(this.#table(name, limit.algorithm), limit, key, now)
  }

  #find(table: LimitTable, limit: Limit, key: string, now: number): Found {
    const { algorithm, codec } = table
    const slot = table.slotOf.get(key)
    if (slot === undefined) {
      return { table, algorithm, limit, key, state: undefined, holds: NO_HOLDS }
    }
    const page = this.#slots.page(slot)
    const index = slot & PAGE_MASK
    const state =
      codec === undefined ? page.objects?.[index] : codec.read(page.cells, index * CELLS)
    const held = page.holds?.[index]
    if (held === undefined) return { table, algorithm, limit, key, state, holds: NO_HOLDS }
    return { table, algorithm, limit, key, ...expireHolds(algorithm, state, held, now, limit) }
  }

  /** Keeps the outcome of a charge. Without room for it, the limit's `onOverload` decides. */
  #keep(found: Found, usage: Usage, decision: Decision, now: number): Decision {
    if (isEmpty(usage)) {
      this.#forget(found.table, found.key)
      return decision
    }
    // Looked up again: a new key of the same group may have been given this one's slot meanwhile.
    const slot = found.table.slotOf.get(found.key) ?? this.#slots.take(found.table, found.key, now)
    if (slot === undefined) return withoutRoom(found, decision)
    const page = this.#slots.page(slot)
    const at = (slot & PAGE_MASK) * CELLS
    this.#write(page, slot & PAGE_MASK, found.table.codec, usage)
    page.cells[at + EXPIRES_AT] = now + Math.min(decision.resetAfterMs, LIFETIME_MS_MAX)
    page.cells[at + ACTIVE_AT] = now + blocksForMs(usage, decision, now)
    return decision
  }

  #write(page: Page, index: number, codec: Codec | undefined, { state, holds }: Usage): void {
    const at = index * CELLS
    if (codec === undefined) page.objects = setObject(page.objects, index, state)
    else if (state !== undefined) codec.write(page.cells, at, state)
    else page.cells.fill(0, at, at + STATE_CELLS)
    page.holds = setObject(page.holds, index, holds.length > 0 ? holds : undefined)
  }
}

/**
 * The fast path of nearly every decision: a known key whose state is a row of numbers. A counter
 * without units counts as in use until it has some again, or expires.
 */
function chargeRow(
  cells: Float64Array,
  at: number,
  algorithm: Algorithm<Limit, object>,
  codec: Codec,
  limit: Limit,
  cost: number,
  now: number,
): Decision {
  const before = codec.read(cells, at)
  const { state, decision } = algorithm.charge(before, cost, now, limit, 0)
  if (state !== before && state !== undefined) codec.write(cells, at, state)
  cells[at + EXPIRES_AT] = now + Math.min(decision.resetAfterMs, LIFETIME_MS_MAX)
  cells[at + ACTIVE_AT] = now + decision.retryAfterMs
  if (decision.allowed && decision.remaining === 0) {
    const usage = { algorithm, limit, state, holds: NO_HOLDS }
    cells[at + ACTIVE_AT] = now + blocksForMs(usage, decision, now)
  }
  return decision
}

function sizeAt(found: readonly Found[], at: number): number {
  return (found[at] as Found).table.size
}

/**
 * The decision about a new key if all keys that it could replace block clients. Units that were
 * added without a decision are lost, which `degraded` reports.
 */
function withoutRoom({ key, limit }: Found, decision: Decision): Decision {
  if (!decision.allowed) return decision
  if (limit.onOverload === 'open' || decision.granted === 0) {
    const degraded = { reason: 'overloaded', mode: 'open' } as const
    return { ...decision, degraded, source: 'fallback' }
  }
  return shedDecision({ name: '', key, limit, cost: decision.granted }, 'overloaded')
}

/** The decisions about a group if one charge has no room: nothing was charged. */
function shedGroup(
  group: readonly Charge[],
  found: readonly Found[],
  roomless: number,
  now: number,
): readonly Decision[] {
  return peekGroup(group, found, now).map((decision, at) =>
    at === roomless ? shedDecision(group[at] as Charge, 'overloaded') : decision,
  )
}
