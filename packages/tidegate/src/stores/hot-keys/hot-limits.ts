/**
 * The limits that this process may decide about without the store, with the state of each: leases
 * of hot keys and synced counters. One entry exists per name and algorithm; the limit itself may
 * differ from key to key.
 *
 * The timers that give back unused leases and report synced counters run only while there are any.
 */

import type { AlgorithmName } from '../../algorithms/algorithm.ts'
import type { Limit } from '../../algorithms/limit.ts'
import { repeat, steadyClock } from '../../clock.ts'
import type { Observer } from '../../observer.ts'
import type { Counter, HotKey, Store } from '../store.ts'
import type { DenialsByKey } from './denials.ts'
import { LeasedCounters, type LeaseState } from './leased-counters.ts'
import { SyncReports } from './sync-reports.ts'
import { SYNC_MS, SyncedCounters } from './synced-counters.ts'

/** Interval between two searches for leases that are no longer needed. */
const SWEEP_MS = 50

/** Calls per second from which a key is reported to the observer. */
const ALERT_PER_SECOND = 10_000

/** Minimum time between two reports of one key. */
const ALERT_INTERVAL_MS = 1_000

/** Keys whose last report is remembered, about 100 bytes each. */
const ALERTS_MAX = 1_024

/** Number of keys that `hotKeys` returns: enough for a page, and cheap to sort. */
const HOT_KEYS = 10

export interface HotLimit {
  /** Prefix of the labels of its counters. */
  readonly labelPrefix: string
  readonly leased: LeasedCounters
  readonly synced: SyncedCounters
  readonly denials: DenialsByKey
}

export class HotLimits {
  readonly #store: Store
  readonly #observer: Observer
  readonly #canLease: boolean
  readonly #limits = new Map<string, Map<AlgorithmName, HotLimit>>()
  readonly #state: LeaseState
  readonly #reports: SyncReports
  readonly #alertMs = new Map<string, number>()
  #stopSweep: (() => void) | undefined
  #stopSync: (() => void) | undefined
  /** The limit of the last call, which the next one most likely has as well. */
  #lastName: string | undefined
  #lastAlgorithm: AlgorithmName | undefined
  #last: HotLimit | undefined

  constructor(store: Store, observer: Observer) {
    this.#store = store
    this.#observer = observer
    this.#canLease = store.capabilities?.leases === true
    this.#reports = new SyncReports(store)
    this.#state = {
      learningUntilMs: 0,
      onHot: (name, key, perSecond) => this.#onHot(name, key, perSecond),
    }
  }

  of(name: string, { algorithm }: Limit): HotLimit {
    if (this.#last !== undefined && name === this.#lastName && algorithm === this.#lastAlgorithm) {
      return this.#last
    }
    const hot = this.#find(name, algorithm)
    this.#lastName = name
    this.#lastAlgorithm = algorithm
    this.#last = hot
    return hot
  }

  #find(name: string, algorithm: AlgorithmName): HotLimit {
    const ofName = this.#limits.get(name) ?? new Map<AlgorithmName, HotLimit>()
    const known = ofName.get(algorithm)
    if (known !== undefined) return known
    const hot = {
      labelPrefix: `${algorithm}\0${name}\0`,
      leased: new LeasedCounters(this.#store, name, this.#state),
      synced: new SyncedCounters(this.#reports),
      denials: new Map(),
    }
    this.#limits.set(name, ofName.set(algorithm, hot))
    return hot
  }

  /** Keys with leased units. */
  get leases(): number {
    return this.#all().reduce((sum, { leased }) => sum + leased.size, 0)
  }

  label({ name, limit, key }: Counter): string {
    return this.of(name, limit).labelPrefix + key
  }

  /** True if a process may take leases of this limit. */
  isLeasable(limit: Limit): boolean {
    return this.#canLease && isShared(limit) && limit.algorithm !== 'slidingLog'
  }

  startSweep(): void {
    this.#stopSweep ??= repeat(() => this.#sweep(), SWEEP_MS)
  }

  startSync(): void {
    this.#stopSync ??= repeat(() => this.#sync(), SYNC_MS)
  }

  forget({ name, limit, key }: Counter): void {
    const { leased, synced } = this.of(name, limit)
    leased.forget(key)
    synced.forget(key)
  }

  /** Gives back all leases and reports all synced counters. */
  async close(): Promise<void> {
    this.#stopSweep?.()
    this.#stopSweep = undefined
    this.#stopSync?.()
    this.#stopSync = undefined
    const nowMs = steadyClock.now()
    await Promise.all(this.#all().map(({ leased }) => leased.settle(nowMs)))
    await this.#reports.finish()
  }

  hotKeys(): HotKey[] {
    const nowMs = steadyClock.now()
    const all = this.#all().flatMap(({ leased }) => leased.top(HOT_KEYS, nowMs))
    return all.sort((one, other) => other.perSecond - one.perSecond).slice(0, HOT_KEYS)
  }

  #all(): HotLimit[] {
    return [...this.#limits.values()].flatMap((ofName) => [...ofName.values()])
  }

  #sweep(): void {
    const nowMs = steadyClock.now()
    let size = 0
    for (const { leased } of this.#all()) {
      leased.sweep(nowMs)
      size += leased.size
    }
    if (size > 0) return
    this.#stopSweep?.()
    this.#stopSweep = undefined
  }

  #sync(): void {
    this.#reports.send()
    const nowMs = steadyClock.now()
    let size = 0
    for (const { synced } of this.#all()) {
      synced.sweep(nowMs)
      size += synced.size
    }
    if (size > 0 || this.#reports.isPending) return
    this.#stopSync?.()
    this.#stopSync = undefined
  }

  #onHot(name: string, key: string, perSecond: number): void {
    if (perSecond < ALERT_PER_SECOND) return
    const label = `${name}\0${key}`
    const nowMs = steadyClock.now()
    if (nowMs - (this.#alertMs.get(label) ?? Number.NEGATIVE_INFINITY) < ALERT_INTERVAL_MS) return
    if (this.#alertMs.size >= ALERTS_MAX) this.#alertMs.clear()
    this.#alertMs.set(label, nowMs)
    this.#observer({ type: 'hot', limit: name, key, perSecond: Math.round(perSecond) })
  }
}

/** True if decisions about the limit may be made without the store. */
export function isShared({ algorithm, accuracy }: Limit): boolean {
  return algorithm !== 'concurrency' && accuracy !== 'exact'
}
