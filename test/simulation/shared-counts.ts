/** The referee of the mode `shared`: it counts what is admitted, and knows the bounds. */

import { windowAt } from '../../packages/tidegate/src/algorithms/fixed-window.ts'
import { capacityOf, lifetimeMs } from '../../packages/tidegate/src/algorithms/limit.ts'
import { isSame, type SharedEntry } from '../../packages/tidegate/src/stores/regions/shared-row.ts'
import { sumOf } from '../../packages/tidegate/src/stores/regions/shares.ts'
import { keyOf, type SharedReferee, type SharedSetup, type SharedWorld } from './shared-world.ts'
import { Broken } from './simulation.ts'

/** Messages between healthy regions arrive within this part of a window. */
const CALM_PART = 20

/** On slower links, the quiet time has too few exchanges. */
const QUIET_DELAY_MS_MAX = 200

export class SharedCounts implements SharedReferee {
  readonly lastsMs: number
  /** The most that was admitted beyond a limit, as a part of it. */
  worst = 0
  readonly #setup: SharedSetup
  readonly #overage: number
  readonly #isCalm: boolean
  #world: SharedWorld | undefined
  /** Units by key and cell, or the level of a bucket. */
  readonly #cells = new Map<string, number>()
  readonly #levels = new Map<string, { level: number; atMs: number }>()
  /** Units that lost stores and stepped clocks may add. */
  #allowance = 0
  /** The entries of each region after its last message, by region, key and cell. */
  readonly #known = new Map<string, { atMs: number; entries: readonly SharedEntry[] }>()
  #hasLost = false
  #losses = 0
  /** After a loss, the units that all regions must know of in the end, by key and cell. */
  readonly #least = new Map<string, number>()
  readonly #hasStepped = new Set<number>()
  #isQuiet = false

  constructor(setup: SharedSetup, overage: number, isCalm: boolean) {
    this.#setup = setup
    this.#overage = overage
    this.#isCalm = isCalm
    this.lastsMs = lifetimeMs(setup.limit)
  }

  watch(world: SharedWorld): void {
    this.#world = world
  }

  endsDemand(): void {
    this.#isQuiet = true
  }

  admitted(region: number, key: string, units: number): void {
    if (this.#setup.limit.algorithm === 'fixedWindow') this.#countCell(region, key, units)
    else this.#countLevel(key, units)
  }

  #countCell(region: number, key: string, units: number): void {
    const { limit } = this.#setup
    if (limit.algorithm !== 'fixedWindow') return
    const { startMs } = windowAt(this.#storeMs(region), limit)
    const cell = `${key} ${startMs}`
    const sum = (this.#cells.get(cell) ?? 0) + units
    this.#cells.set(cell, sum)
    const least = this.#least.get(cell)
    if (least !== undefined) this.#least.set(cell, least + units)
    this.#check(sum, limit.limit, `${key} has ${sum} of ${limit.limit} in a window`)
  }

  /** A bucket, or a window as a bucket of its length: at most the limit twice in two windows. */
  #countLevel(key: string, units: number): void {
    const { limit } = this.#setup
    const nowMs = this.#now()
    const perMs = 'perMs' in limit ? limit.perMs : 1
    // Clocks that run fast drain faster. Regions that may use more than a share unseen also have
    // more than its rate, for as long as a cut lasts.
    const unseen = this.#setup.blind === 1 ? 1 : 1 + this.#overage / capacityOf(limit)
    const rate = (limit.limit / perMs) * (1 + this.#setup.drift) * unseen
    const before = this.#levels.get(key) ?? { level: 0, atMs: nowMs }
    const level = Math.max(0, before.level - rate * (nowMs - before.atMs)) + units
    this.#levels.set(key, { level, atMs: nowMs })
    const most = limit.algorithm === 'tokenBucket' ? limit.burst : 2 * limit.limit
    this.#check(level, most, `${key} has a level of ${level.toFixed(1)} of ${most}`)
  }

  #check(units: number, most: number, text: string): void {
    const capacity = capacityOf(this.#setup.limit)
    this.worst = Math.max(this.worst, (units - most - this.#allowance) / capacity)
    // Rounding of levels: less than a unit for each region.
    const slack = this.#setup.limit.algorithm === 'fixedWindow' ? 0 : this.#setup.shares.length
    const bound = most + this.#bound() + this.#allowance + slack
    if (units > bound) throw new Broken(this.#now(), `${text}, allowed are ${bound}`)
  }

  /** The promise for every case, or the smaller one for links that are fast. */
  #bound(): number {
    const { limit, blind, link, exchangeMs } = this.#setup
    const { delayMs, jitterMs, bytesPerMs } = link
    const isFast =
      (exchangeMs + 2 * (delayMs + jitterMs)) * CALM_PART <= this.lastsMs && bytesPerMs > 1
    const isStrict = this.#isCalm && isFast && blind === 1
    if (limit.algorithm === 'fixedWindow' && isStrict) return Math.ceil(limit.limit / 1_000)
    // Late units of a bucket are charged when they arrive.
    const laterMs = limit.algorithm === 'fixedWindow' ? 0 : this.lastsMs
    return this.#overage * (1 + laterMs / this.lastsMs)
  }

  /** How long units can matter: a bucket also pays back those beyond the limit. */
  paybackMs(): number {
    const capacity = capacityOf(this.#setup.limit)
    return this.lastsMs * (2 + (2 * this.#overage + this.#allowance) / capacity)
  }

  lost(region: number, loses: 'exchanger' | 'store'): void {
    if (loses === 'exchanger') return
    // A lost store has its share once more.
    this.#hasLost = true
    this.#allowance += this.#shareOf(region)
    this.#losses++
    for (let key = 0; key < this.#setup.keys; key++) this.#rememberKnown(region, keyOf(key))
  }

  /** Units that the peers know when a region loses its store are known for ever. */
  #rememberKnown(lost: number, key: string): void {
    let units = 0
    for (const { index, shared, clock } of this.#world?.regions ?? []) {
      if (index === lost) continue
      units = Math.max(units, shared.knownUnits(key, clock.at(this.#now())))
    }
    this.#least.set(`${key} ${this.#cellAt(this.#storeMs(lost)).startMs}`, units)
  }

  stepped(region: number, ms: number): void {
    // A window that is entered a second time has the share once more.
    if (ms === 0) return
    this.#allowance += 2 * this.#shareOf(region)
    this.#hasLost = true
    this.#hasStepped.add(region)
  }

  #shareOf(region: number): number {
    const { limit, shares, blind } = this.#setup
    const share = Math.min(1, ((shares[region] ?? 0) * blind) / sumOf(shares))
    return Math.ceil(capacityOf(limit) * share)
  }

  /** Counts that a region knows of never go back, but for those of a lost store or window. */
  checked(region: number): void {
    const world = this.#world
    const state = world?.regions[region]
    if (world === undefined || state === undefined || this.#hasStepped.has(region)) return
    const times = state.clock.at(world.timeline.nowMs)
    const { startMs } = this.#cellAt(times.storeMs)
    const isBucket = this.#setup.limit.algorithm === 'tokenBucket'
    for (let key = 0; key < this.#setup.keys; key++) {
      const label = `${region}.${state.losses} ${key} ${startMs}`
      const entries = state.shared.entries(keyOf(key), times)
      const last = this.#known.get(label)
      // A bucket that was idle for long has drained, and its row was dropped.
      const isIdle = isBucket && this.#now() - (last?.atMs ?? 0) > this.lastsMs
      for (const before of isIdle ? [] : (last?.entries ?? [])) {
        const entry = entries.find((one) => isSame(one, before))
        // A bucket forgets the units of an incarnation that have drained.
        const own = entry?.own ?? (isBucket ? Infinity : 0)
        if (own >= before.own) continue
        throw new Broken(this.#now(), `a count of r${region} went from ${before.own} to ${own}`)
      }
      const isChanged = entries !== last?.entries
      if (isChanged) this.#known.set(label, { atMs: this.#now(), entries })
    }
  }

  /** After quiet, all regions know the same units, and charge the same for each. */
  checkQuiet(): void {
    const world = this.#world
    if (world === undefined || !this.#isQuiet) return
    if (this.#losses > 1 || this.#hasStepped.size > 0) return
    const { limit, keys, shares, floor, blind, link } = this.#setup
    if (limit.algorithm !== 'fixedWindow' || floor > 0) return
    if (link.delayMs > QUIET_DELAY_MS_MAX) return
    for (let key = 0; key < keys; key++) {
      const cells = world.regions.map(({ index }) => this.#cellAt(this.#storeMs(index)).startMs)
      const [cell] = cells
      if (cells.some((one) => one !== cell)) return
      const sum = this.#cells.get(`${keyOf(key)} ${cell}`) ?? 0
      const least = this.#least.get(`${keyOf(key)} ${cell}`) ?? 0
      for (const { shared, clock, index } of world.regions) {
        const known = shared.knownUnits(keyOf(key), clock.at(this.#now()))
        if (known < least) throw new Broken(this.#now(), `r${index} knows ${known} of ${least}`)
        if (this.#hasLost) continue
        if (known !== sum) throw new Broken(this.#now(), `r${index} knows ${known} of ${sum}`)
        const cost = Math.min((shares[index] ?? 0) * blind, sumOf(shares)) / divisorOf(shares)
        const used = world.used(index, keyOf(key))
        if (used !== Math.min(sum * cost, shared.counterLimit.limit)) {
          throw new Broken(this.#now(), `r${index} charges ${used} for ${sum} units of ${cost}`)
        }
      }
    }
  }

  #cellAt(storeMs: number): { startMs: number } {
    const { limit } = this.#setup
    if (limit.algorithm === 'fixedWindow') return windowAt(storeMs, limit)
    if (limit.algorithm !== 'slidingWindow') return { startMs: 0 }
    return { startMs: storeMs - (storeMs % limit.perMs) }
  }

  #storeMs(region: number): number {
    return this.#world?.regions[region]?.clock.at(this.#now()).storeMs ?? 0
  }

  #now(): number {
    return this.#world?.timeline.nowMs ?? 0
  }
}

function divisorOf(shares: readonly number[]): number {
  const divisor = (a: number, b: number): number => (b === 0 ? a : divisor(b, a % b))
  return shares.reduce(divisor)
}
