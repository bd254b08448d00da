/** The referee of the modes `home` and `escrow`: not one unit beyond the limit. */

import type { Counter, Limit } from 'tidegate'
import { windowAt } from '../../../packages/tidegate/src/algorithms/fixed-window.ts'
import { capacityOf } from '../../../packages/tidegate/src/algorithms/limit.ts'
import { Broken } from '../simulation.ts'
import type { HomeReferee, HomeSetup, HomeWorld } from './home-world.ts'

/** A decision waits for a block, and then for the home itself. */
const WAITS_MAX = 2

export class HomeCounts implements HomeReferee {
  admittedUnits = 0
  hasLost = false
  readonly #setup: HomeSetup
  #world: HomeWorld | undefined
  /** Units by counter and window of the home. */
  readonly #cells = new Map<string, number>()
  readonly #levels = new Map<string, { level: number; atMs: number }>()
  readonly #totals = new Map<string, number>()
  /** Units that lost stores and stepped clocks may add to each counter, in parts of its limit. */
  #allowance = 0

  constructor(setup: HomeSetup) {
    this.#setup = setup
  }

  watch(world: HomeWorld): void {
    this.#world = world
  }

  admitted(_region: number, counter: Counter, units: number, askedMs: number): void {
    const label = `${counter.name} ${counter.key}`
    this.#totals.set(label, this.totalOf(counter) + units)
    if (counter.limit.algorithm === 'fixedWindow') this.#countCell(label, counter, units, askedMs)
    else this.#countLevel(label, counter.limit, units)
  }

  totalOf({ name, key }: Counter): number {
    return this.#totals.get(`${name} ${key}`) ?? 0
  }

  /** Waits are bounded, whatever happens to the links. */
  decided(region: number, askedMs: number): void {
    const tookMs = this.#nowMs() - askedMs
    if (tookMs <= WAITS_MAX * this.#setup.deadlineMs + 1) return
    throw new Broken(this.#nowMs(), `r${region} decided after ${tookMs} ms`)
  }

  /** The keys of a lost home have all of it once more. */
  lost(): void {
    this.hasLost = true
    this.#allowance++
  }

  /** A window that is entered twice has all units once more, before and after it. */
  stepped(): void {
    this.#allowance += 2
  }

  /** Units that were asked for and admitted in the same window of the home. */
  #countCell(label: string, counter: Counter, units: number, askedMs: number): void {
    const { limit } = counter
    if (limit.algorithm !== 'fixedWindow') return
    const home = this.#world?.homeOf(counter)
    const startOf = (trueMs: number) => windowAt(home?.clock.storeMsAt(trueMs) ?? 0, limit).startMs
    const startMs = startOf(this.#nowMs())
    if (startOf(askedMs) !== startMs) return
    const cell = `${label} ${home?.index} ${startMs}`
    const sum = (this.#cells.get(cell) ?? 0) + units
    this.#cells.set(cell, sum)
    const allowed = limit.limit + this.#otherWindows(limit) + this.#allowanceOf(limit)
    if (sum <= allowed) return
    throw new Broken(this.#nowMs(), `${label} has ${sum} of ${allowed} in a window`)
  }

  /** At most the burst and the rate in every interval. */
  #countLevel(label: string, limit: Limit, units: number): void {
    const { drift, deadlineMs, regions } = this.#setup
    const nowMs = this.#nowMs()
    const perMs = 'perMs' in limit ? limit.perMs : 1
    const rate = (limit.limit / perMs) * (1 + drift)
    const before = this.#levels.get(label) ?? { level: 0, atMs: nowMs }
    const level = Math.max(0, before.level - rate * (nowMs - before.atMs)) + units
    this.#levels.set(label, { level, atMs: nowMs })
    // Units are charged a deadline before the answer at most. Stores count whole milliseconds.
    const slack = rate * (deadlineMs + regions) + regions
    const allowed = capacityOf(limit) + slack + this.#allowanceOf(limit)
    if (level <= allowed) return
    throw new Broken(nowMs, `${label} has a level of ${level.toFixed(1)} of ${allowed.toFixed(1)}`)
  }

  /** Windows of reserves begin at other times if clocks differ. */
  #otherWindows({ limit }: Limit): number {
    const { reserve, offsetMsMax, drift, isOneWindow } = this.#setup
    if (isOneWindow || (offsetMsMax === 0 && drift === 0)) return 0
    return Math.floor((limit * reserve) / 100)
  }

  #allowanceOf(limit: Limit): number {
    return this.#allowance * capacityOf(limit)
  }

  #nowMs(): number {
    return this.#world?.timeline.nowMs ?? 0
  }
}
