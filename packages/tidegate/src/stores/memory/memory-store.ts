/**
 * The memory store: the embedded default, and the measure of what the other stores must answer. A
 * call is atomic because nothing else runs in between.
 *
 * Bounded by `keysMax`; no timer. When it is full, a key that is idle makes room, never one that is
 * blocking somebody. If all are, the new key is admitted without being counted, and the decision
 * says so.
 */

import type { Algorithm, AlgorithmName } from '../../algorithms/algorithm.ts'
import { dropHold, type Holds, presentOf } from '../../algorithms/holds.ts'
import { algorithmNamed, type Limit } from '../../algorithms/limit.ts'
import { type Clock, systemClock } from '../../clock.ts'
import type { Decision } from '../../decision.ts'
import { checkOptions, checkWhole } from '../../policy/options.ts'
import type { Adjustment, Charge, ChargeMode, Counter, Store } from '../store.ts'
import { type Codec, codecOf, STATE_CELLS } from './cells.ts'
import { blocksForMs, isEmpty, judge, judgeGroup, peekGroup, settled, type Usage } from './judge.ts'
import { KeyIndex } from './key-index.ts'
import {
  ACTIVE_AT,
  CELLS,
  EXPIRES_AT,
  PAGE_BITS,
  PAGE_MASK,
  type Page,
  Slots,
  setObject,
  type Table,
} from './slots.ts'

export interface MemoryStoreOptions {
  /** Keys kept at once. Default: one million, which take some 100 MB. */
  readonly keysMax?: number
  /** Default: the system's. */
  readonly clock?: Clock
}

/** A store that answers at once, and can be looked into. */
export interface MemoryStore extends Store {
  readonly isRemote: false
  charger(name: string, limit: Limit): (key: string, cost: number) => Decision
  charge(group: readonly Charge[], mode: ChargeMode): readonly Decision[]
  adjust(group: readonly Adjustment[]): readonly Decision[]
  reset(group: readonly Counter[]): void
  close(): void
  /** Keys kept just now; expired ones count until they are reclaimed. */
  readonly size: number
}

const KEYS_MAX_DEFAULT = 1_000_000

/** A Map of V8 ends at 2^24 entries. */
const KEYS_MAX_MAX = 2 ** 24 - 1

/** For the rare state that never drains, because its limit is 0 now: it, too, is forgotten. */
const LIFETIME_MS_MAX = 400 * 86_400_000

const NO_HOLDS: Holds = []

interface LimitTable extends Table {
  readonly algorithm: Algorithm<Limit, object>
  readonly codec: Codec | undefined
}

/** A counter as found: nothing is used or held where the key is new. */
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
  readonly canLease = true
  readonly #clock: Clock
  readonly #slots: Slots
  readonly #tables = new Map<string, Map<AlgorithmName, LimitTable>>()

  constructor(keysMax: number, clock: Clock) {
    this.#clock = clock
    this.#slots = new Slots(keysMax)
  }

  get size(): number {
    return this.#slots.size
  }

  charger(name: string, limit: Limit): (key: string, cost: number) => Decision {
    const { pages } = this.#slots
    const clock = this.#clock
    const table = this.#table(name, limit.algorithm)
    const { slotOf, algorithm, codec } = table
    return (key, cost) => {
      const now = Math.floor(clock.now())
      const slot = slotOf.get(key)
      if (slot !== undefined && codec !== undefined) {
        const page = pages[slot >> PAGE_BITS] as Page
        const at = (slot & PAGE_MASK) * CELLS
        if (page.holds === undefined) {
          return chargeRow(page.cells, at, algorithm, codec, limit, cost, now)
        }
      }
      return this.#chargeAny(table, limit, key, cost, now)
    }
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
    return judgeGroup(group, found, mode, now).map(({ usage, decision }, at) =>
      this.#keep(found[at] as Found, usage, decision, now),
    )
  }

  adjust(group: readonly Adjustment[]): readonly Decision[] {
    const now = Math.floor(this.#clock.now())
    return group.map(({ units, release, ...counter }) => {
      const found = this.#findCounter(counter, now)
      const { algorithm, limit, holds } = found
      const state = algorithm.adjust(found.state, units, now, limit)
      const left = release === undefined ? holds : dropHold(holds, release)
      const usage = { ...found, state, holds: left }
      const { decision } = judge(usage, 0, now)
      return this.#keep(found, usage, decision, now)
    })
  }

  reset(group: readonly Counter[]): void {
    for (const { name, limit, key } of group) {
      this.#forget(this.#table(name, limit.algorithm), key)
    }
  }

  close(): void {
    this.#tables.clear()
  }

  #chargeAny(table: LimitTable, limit: Limit, key: string, cost: number, now: number): Decision {
    const found = this.#find(table, limit, key, now)
    const { state, decision } = judge(found, cost, now)
    return this.#keep(found, { ...found, state }, decision, now)
  }

  #table(name: string, algorithm: AlgorithmName): LimitTable {
    const ofName = this.#tables.get(name) ?? new Map<AlgorithmName, LimitTable>()
    const known = ofName.get(algorithm)
    if (known !== undefined) return known
    const table = {
      slotOf: new KeyIndex(),
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
    return { table, algorithm, limit, key, ...presentOf(algorithm, state, held, now, limit) }
  }

  /** Keeps what a charge left behind; the decision comes back, marked if there was no room. */
  #keep(found: Found, usage: Usage, decision: Decision, now: number): Decision {
    if (isEmpty(usage)) {
      this.#forget(found.table, found.key)
      return decision
    }
    // Looked up again: a new key of the same group may have been given this one's slot meanwhile.
    const slot = found.table.slotOf.get(found.key) ?? this.#slots.take(found.table, found.key, now)
    if (slot === undefined) return uncounted(decision)
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
 * The way of nearly every decision, kept short: a known key whose state is a row of numbers. A
 * counter that has nothing left counts as in use until it has, or expires.
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

function uncounted(decision: Decision): Decision {
  return {
    ...decision,
    allowed: true,
    retryAfterMs: 0,
    degraded: { reason: 'overloaded', mode: 'open' },
  }
}
