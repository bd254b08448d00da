/**
 * The store of a region with limits that it shares with other regions. Limits without a mode go to
 * the store behind it unchanged, in the same group as before.
 *
 * A group with limits whose units may be elsewhere is charged side by side, and given back if one
 * denies. So nothing is charged unless all are granted, and no limit is ever exceeded.
 */

import type {
  Adjustment,
  Callback,
  Charge,
  ChargeMode,
  Counter,
  Decision,
  MaybePromise,
  Store,
  StoreCapabilities,
} from 'tidegate'
import type { HeldUnits } from './escrow/escrow-pools.ts'
import type { ForgottenRegions } from './forgotten-regions.ts'
import { type Decided, HomeCharges, type HomePlace } from './home-charges.ts'
import { canGiveBack } from './peer/give-back.ts'
import type { Peer } from './peer/peer.ts'
import { type ProcessTime, processTime } from './process-time.ts'
import { type RegionCount, RegionCounts } from './region-counts.ts'
import type { RegionLimit } from './region-limits.ts'
import type { AdmittedUnits } from './shared/admitted-units.ts'
import { isSure, SharedCharges, type SharedPlace } from './shared/shared-charges.ts'
import type { Topology } from './topology.ts'

export class RegionStore implements Store {
  readonly isRemote = true
  readonly capabilities: StoreCapabilities
  readonly #store: Store
  readonly #peers: ReadonlyMap<string, Peer>
  readonly #homes: HomeCharges
  readonly #shared: SharedCharges
  readonly #time: ProcessTime
  readonly #counts = new RegionCounts()
  #limits: ReadonlyMap<string, RegionLimit>

  constructor(
    store: Store,
    topology: Topology,
    peers: ReadonlyMap<string, Peer>,
    limits: ReadonlyMap<string, RegionLimit>,
    time: ProcessTime = processTime,
  ) {
    this.capabilities = store.capabilities ?? {}
    this.#store = store
    this.#time = time
    this.#peers = peers
    this.#homes = new HomeCharges(store, topology, peers, time)
    this.#shared = new SharedCharges(store)
    this.#limits = limits
  }

  /** Replaces the limits, as those of a new policy. */
  use(limits: ReadonlyMap<string, RegionLimit>): void {
    this.#limits = limits
    this.#counts.keep(limits)
  }

  counts(): readonly RegionCount[] {
    return this.#counts.read()
  }

  /** Regions that are lost for good, whose keys get another home. */
  get forgotten(): ForgottenRegions {
    return this.#homes.forgotten
  }

  /** Units of the mode `shared` that are to be reported. */
  get admitted(): AdmittedUnits {
    return this.#shared.admitted
  }

  held(): HeldUnits {
    return this.#homes.pools.held()
  }

  chargeOne(counter: Counter, cost: number, done: Callback): Decision | undefined {
    const region = this.#limits.get(counter.name)
    if (region === undefined) return this.#store.chargeOne(counter, cost, done)
    if (region.mode === 'partition') {
      this.#counts.add(region, 'share')
      return this.#store.chargeOne(shareOf(region, counter), cost, done)
    }
    if (region.mode === 'shared') {
      this.#counts.add(region, 'share')
      const place = this.#shared.placeOf(region, counter)
      return this.#shared.chargeOne(place, counter, cost, done)
    }
    const place = this.#homes.placeOf(region, counter)
    const leased = this.#homes.fromPool(place, cost)
    if (leased !== undefined) {
      this.#counts.add(region, 'pool')
      return leased
    }
    this.#decide(place, cost).then(
      ({ decision }) => done.resolve(decision),
      (error: unknown) => done.reject(error),
    )
    return undefined
  }

  charge(group: readonly Charge[], mode: ChargeMode): MaybePromise<readonly Decision[]> {
    if (mode !== 'peek') this.#countShares(group)
    const places = group.map((charge) => this.#sharedPlaceOf(charge))
    if (places.every((place) => place === undefined)) return this.#charge(group, mode)
    const charges = group.map((charge, at) => {
      const place = places[at]
      return place === undefined ? charge : this.#shared.divided(place, charge)
    })
    return this.#chargeShared(group, charges, places, mode)
  }

  async adjust(group: readonly Adjustment[]): Promise<readonly Decision[]> {
    const places = group.map((one) => this.#sharedPlaceOf(one))
    const adjustments = group.map((one, at) => {
      const place = places[at]
      return place === undefined ? this.#divided(one) : this.#shared.adjusted(place, one)
    })
    const stores = this.#byStore(adjustments)
    const decisions = new Array<Decision>(group.length)
    await Promise.all(
      [...stores].map(async ([store, parts]) => {
        const decided = await store.adjust(parts.map(({ counter }) => counter))
        for (const [at, { index }] of parts.entries()) decisions[index] = decided[at] as Decision
      }),
    )
    return decisions.map((decision, at) => {
      const place = places[at]
      const asked = group[at] as Adjustment
      if (place === undefined) return decision
      this.#shared.forget(place)
      if (isSure(decision)) this.#shared.note(place, asked, asked.units)
      return this.#shared.shown(place, decision)
    })
  }

  async reset(group: readonly Counter[]): Promise<void> {
    const places = group.map((counter) => this.#sharedPlaceOf(counter))
    const counters = group.map((one, at) => places[at]?.counter ?? this.#divided(one))
    const stores = this.#byStore(counters)
    const everywhereReset = [
      ...group.flatMap((counter) => this.#placeOf(counter)?.reserve ?? []),
      ...places.flatMap((place) => place?.counter ?? []),
    ]
    for (const place of places) if (place !== undefined) this.#shared.forget(place)
    for (const counter of group) {
      const place = this.#placeOf(counter)
      if (place !== undefined) this.#homes.pools.forget(place.label)
    }
    const peers = [...this.#peers.values()].filter(({ link }) => !this.forgotten.has(link.peer))
    const everywhere = [this.#store, ...peers.map(({ store }) => store)]
    await Promise.all([
      ...[...stores].map(([store, parts]) => store.reset(parts.map(({ counter }) => counter))),
      ...(everywhereReset.length === 0
        ? []
        : everywhere.map((store) => store.reset(everywhereReset))),
    ])
  }

  /** Gives leased units back, when the process stops. */
  giveBack(): Promise<void> {
    return this.#homes.pools.close()
  }

  /** The owner closes the links and the store of the region. */
  close(): Promise<void> {
    return this.giveBack()
  }

  #charge(group: readonly Charge[], mode: ChargeMode): MaybePromise<readonly Decision[]> {
    const charges = group.map((charge) => this.#divided(charge))
    if (!charges.some((charge) => this.#isElsewhere(charge))) {
      return this.#store.charge(charges, mode)
    }
    return this.#sideBySide(charges, mode)
  }

  /**
   * A group with counters that have parts of units. Parts cannot be granted partially, so the mode
   * `partial` grants all of the group or nothing.
   */
  async #chargeShared(
    group: readonly Charge[],
    charges: readonly Charge[],
    places: readonly (SharedPlace | undefined)[],
    mode: ChargeMode,
  ): Promise<readonly Decision[]> {
    const decisions = await this.#charge(charges, mode === 'partial' ? 'all' : mode)
    return decisions.map((decision, at) => {
      const place = places[at]
      const asked = group[at] as Charge
      if (place === undefined) return decision
      const isCharged = mode !== 'peek' && asked.hold === undefined
      return isCharged
        ? this.#shared.charged(place, asked, decision)
        : this.#shared.shown(place, decision)
    })
  }

  async #sideBySide(group: readonly Charge[], mode: ChargeMode): Promise<readonly Decision[]> {
    const askedMs = this.#time.now()
    const here = group.filter((charge) => !this.#isElsewhere(charge))
    const [decidedHere, decided] = await Promise.all([
      here.length === 0 ? [] : this.#store.charge(here, mode),
      Promise.all(
        group.map((charge) =>
          this.#isElsewhere(charge) ? this.#elsewhere(charge, mode) : undefined,
        ),
      ),
    ])
    const decisions = group.map((charge, at) => {
      return decided[at]?.decision ?? (decidedHere[here.indexOf(charge)] as Decision)
    })
    if (mode === 'peek' || decisions.every(({ allowed }) => allowed)) return decisions
    this.#undo(group, here, decidedHere, decided, askedMs)
    return decisions.map(uncharged)
  }

  async #elsewhere(charge: Charge, mode: ChargeMode): Promise<Decided> {
    const place = this.#placeOf(charge) as HomePlace
    if (mode === 'peek') return this.#homes.peek(place, charge)
    if (mode !== 'all' || charge.hold !== undefined || charge.settles !== undefined) {
      const decided = await this.#homes.chargeHome(place, charge, mode)
      this.#counts.add(place.region, decided.by)
      return decided
    }
    const leased = this.#homes.fromPool(place, charge.cost)
    if (leased === undefined) return this.#decide(place, charge.cost)
    this.#counts.add(place.region, 'pool')
    return { decision: leased, by: 'pool' }
  }

  /** Callers do not wait: units that cannot be given back are missing, and never too many. */
  #undo(
    group: readonly Charge[],
    here: readonly Charge[],
    decidedHere: readonly Decision[],
    decided: readonly (Decided | undefined)[],
    askedMs: number,
  ): void {
    const elapsedMs = this.#time.now() - askedMs
    for (const [at, charge] of group.entries()) {
      const one = decided[at]
      const place = one && this.#placeOf(charge)
      if (one === undefined || place === undefined) {
        const decision = decidedHere[here.indexOf(charge)]
        if (decision !== undefined) void this.#giveBack(charge, decision, elapsedMs)
      } else if (charge.hold === undefined) {
        this.#homes.undo(place, one, askedMs)
      } else if (one.decision.granted > 0) {
        void this.adjust([giveBack(charge, 0)]).catch(() => undefined)
      }
    }
  }

  /** To the store of this region, whose numbers the charge has already. */
  async #giveBack(charge: Charge, decision: Decision, elapsedMs: number): Promise<void> {
    const { granted } = decision
    const isHeld = charge.hold !== undefined
    if (granted === 0 || !(isHeld || canGiveBack(charge.limit, decision, elapsedMs))) return
    try {
      await this.#store.adjust([giveBack(charge, granted)])
    } catch {
      // The units stay charged.
    }
  }

  async #decide(place: HomePlace, cost: number): Promise<Decided> {
    const decided = await this.#homes.decide(place, cost)
    this.#counts.add(place.region, decided.by)
    return decided
  }

  #countShares(group: readonly Charge[]): void {
    for (const { name } of group) {
      const region = this.#limits.get(name)
      if (region === undefined || (region.mode !== 'partition' && region.mode !== 'shared'))
        continue
      this.#counts.add(region, 'share')
    }
  }

  /** With the numbers of this region, if the limit is divided. */
  #divided<T extends Counter>(counter: T): T {
    const region = this.#limits.get(counter.name)
    if (region === undefined || region.mode !== 'partition') return counter
    return shareOf(region, counter)
  }

  #isElsewhere({ name }: Counter): boolean {
    const region = this.#limits.get(name)
    return region !== undefined && isAtHome(region)
  }

  #sharedPlaceOf(counter: Counter): SharedPlace | undefined {
    const region = this.#limits.get(counter.name)
    return region?.mode === 'shared' ? this.#shared.placeOf(region, counter) : undefined
  }

  #placeOf(counter: Counter): HomePlace | undefined {
    const region = this.#limits.get(counter.name)
    if (region === undefined || !isAtHome(region)) return undefined
    return this.#homes.placeOf(region, counter)
  }

  /** The counters by the store that has them, with their index in the group. */
  #byStore<T extends Counter>(group: readonly T[]): Map<Store, { counter: T; index: number }[]> {
    const stores = new Map<Store, { counter: T; index: number }[]>()
    for (const [index, counter] of group.entries()) {
      const place = this.#placeOf(counter)
      if (place !== undefined) this.#homes.forget(place)
      const store = place?.peer?.store ?? this.#store
      const parts = stores.get(store) ?? []
      parts.push({
        counter: place === undefined ? counter : { ...counter, ...place.counter },
        index,
      })
      stores.set(store, parts)
    }
    return stores
  }
}

function isAtHome({ mode }: RegionLimit): boolean {
  return mode === 'home' || mode === 'escrow'
}

function shareOf<T extends Counter>(region: RegionLimit, counter: T): T {
  return { ...counter, limit: region.partsOf(counter.limit).share }
}

function giveBack({ name, limit, key, within, hold }: Charge, granted: number): Adjustment {
  const counter = within === undefined ? { name, limit, key } : { name, limit, key, within }
  if (hold !== undefined) return { ...counter, units: 0, release: hold.id }
  return { ...counter, units: -granted }
}

/** The decision after its units were given back. */
function uncharged(decision: Decision): Decision {
  const { allowed, granted, remaining } = decision
  return allowed ? { ...decision, granted: 0, remaining: remaining + granted } : decision
}
