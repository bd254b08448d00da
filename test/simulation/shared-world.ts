/**
 * Regions in the mode `shared`: memory stores with the real algorithms, the real protocol with its
 * encoding, and a referee that counts what is admitted.
 */

import { type Limit, lifetimeMs } from '../../packages/tidegate/src/algorithms/limit.ts'
import {
  type MemoryStore,
  memoryStore,
} from '../../packages/tidegate/src/stores/memory/memory-store.ts'
import { stampText } from '../../packages/tidegate/src/stores/regions/hlc.ts'
import {
  decodeShared,
  encodeShared,
} from '../../packages/tidegate/src/stores/regions/shared-messages.ts'
import { SharedRegion } from '../../packages/tidegate/src/stores/regions/shared-region.ts'
import type {
  SharedEffects,
  SharedSaved,
} from '../../packages/tidegate/src/stores/regions/shared-settings.ts'
import type { RegionShare } from '../../packages/tidegate/src/stores/regions/shares.ts'
import { between, forkedRandom } from './forked-random.ts'
import type { Incident } from './incidents.ts'
import { type LinkSettings, Network } from './network.ts'
import { RegionClock, START_MS } from './region-clock.ts'
import { Timeline } from './timeline.ts'

export interface SharedSetup {
  readonly seed: number
  readonly limit: Limit
  readonly shares: readonly number[]
  readonly blind: number
  readonly floor: number
  readonly keys: number
  readonly link: LinkSettings
  /** Largest difference of the clocks at the start, and of their rates. */
  readonly offsetMsMax: number
  readonly drift: number
  readonly exchangeMs: number
}

export interface SharedReferee {
  admitted(region: number, key: string, units: number): void
  lost(region: number, loses: 'exchanger' | 'store'): void
  stepped(region: number, ms: number): void
  /** Called after each message that a region has handled. */
  checked(region: number): void
}

export interface SimulatedRegion {
  readonly index: number
  readonly clock: RegionClock
  store: MemoryStore
  shared: SharedRegion
  downUntilMs: number
  incarnation: string
  losses: number
  term: number
}

const NAME = 'limit'

/** As large as those of the server, which begin with the minutes of the clock. */
const FIRST_TERM = START_MS / 60_000

/** Digests of 12 characters. */
export const keyOf = (key: number) => `key${String(key).padStart(9, '0')}`

export class SharedWorld {
  readonly timeline = new Timeline()
  readonly network: Network
  readonly regions: readonly SimulatedRegion[]
  readonly setup: SharedSetup
  readonly #shares: readonly RegionShare[]
  readonly #referee: SharedReferee
  asked = 0
  granted = 0

  constructor(setup: SharedSetup, referee: SharedReferee) {
    this.setup = setup
    this.#referee = referee
    this.#shares = setup.shares.map((parts, index) => ({ name: nameOf(index), parts }))
    const random = forkedRandom(setup.seed, 'clocks')
    this.regions = setup.shares.map((_, index) => {
      const drift = ((random.below(2_001) - 1_000) / 1_000) * setup.drift
      const offsetMs = random.below(2 * setup.offsetMsMax + 1) - setup.offsetMsMax
      const clock = new RegionClock(drift, offsetMs, random.below(1_000_000))
      const incarnation = stampText({ ms: clock.at(0).storeMs, count: 0 })
      const region = { index, clock, downUntilMs: 0, incarnation, losses: 0, term: FIRST_TERM }
      const store = memoryStore({ clock: clock.store })
      return { ...region, store, shared: this.#protocol(region) }
    })
    const links = forkedRandom(setup.seed, 'links')
    this.network = new Network(this.timeline, links, setup.link, (from, to, body) => {
      this.#receive(from, to, body)
    })
  }

  /** Lets the regions exchange until `untilMs`. */
  start(untilMs: number): void {
    const random = forkedRandom(this.setup.seed, 'phases')
    for (const region of this.regions) {
      const { exchangeMs } = this.setup
      this.timeline.every(exchangeMs, random.below(exchangeMs), untilMs, () => this.#tick(region))
    }
  }

  play(incidents: readonly Incident[]): void {
    for (const incident of incidents) {
      this.timeline.at(incident.atMs, () => this.#begin(incident))
    }
  }

  /** Asks for units one by one, and returns the number that is admitted. */
  demand(index: number, key: string, units: number): number {
    const region = this.regions[index] as SimulatedRegion
    this.asked += units
    if (this.timeline.nowMs < region.downUntilMs) return 0
    const times = region.clock.at(this.timeline.nowMs)
    const counter = { name: NAME, limit: region.shared.counterLimit, key }
    const { remaining } = region.store.chargeOne(counter, 0)
    const admitted = Math.min(units, Math.floor(remaining / region.shared.costOf(1)))
    if (admitted === 0) return 0
    region.store.chargeOne(counter, region.shared.costOf(admitted))
    region.shared.admitted(key, admitted, times)
    this.granted += admitted
    this.#referee.admitted(index, key, admitted)
    return admitted
  }

  /** Parts that are used on the region's counter. */
  used(index: number, key: string): number {
    const { shared, store, clock } = this.regions[index] as SimulatedRegion
    clock.at(this.timeline.nowMs)
    const limit = shared.counterLimit
    const { remaining } = store.chargeOne({ name: NAME, limit, key }, 0)
    return limit.limit - remaining
  }

  #begin(incident: Incident): void {
    const { timeline } = this
    switch (incident.kind) {
      case 'demand': {
        const { region, units, everyMs, forMs } = incident
        const key = keyOf(incident.key)
        const untilMs = timeline.nowMs + forMs
        timeline.every(everyMs, timeline.nowMs, untilMs, () => this.demand(region, key, units))
        break
      }
      case 'cut':
        this.network.cut(incident.from, incident.to, incident.forMs)
        break
      case 'step':
        this.#step(incident.region, incident.ms)
        break
      case 'crash':
        this.#crash(this.regions[incident.region] as SimulatedRegion, incident)
        break
      case 'twoExchangers': {
        const region = this.regions[incident.region] as SimulatedRegion
        const untilMs = timeline.nowMs + incident.forMs
        const everyMs = between(forkedRandom(this.setup.seed, `two${timeline.nowMs}`), 30, 150)
        timeline.every(everyMs, timeline.nowMs, untilMs, () => this.#tick(region))
        break
      }
      case 'epoch':
        break
    }
  }

  #step(index: number, ms: number): void {
    const stepped = this.regions[index] as SimulatedRegion
    stepped.clock.step(ms)
    this.#referee.stepped(index, ms)
    // The link measures the offsets of clocks with every message.
    for (const region of this.regions) {
      for (const peer of this.regions) {
        if (peer === region) continue
        region.shared.setOffset(nameOf(peer.index), peer.clock.offsetMs - region.clock.offsetMs)
      }
    }
  }

  #crash(region: SimulatedRegion, incident: Incident & { kind: 'crash' }): void {
    region.downUntilMs = Math.max(region.downUntilMs, this.timeline.nowMs + incident.forMs)
    if (incident.loses === 'nothing') return
    if (incident.loses === 'exchanger') {
      // The next leader finds the rows in the store.
      const saved: SharedSaved = structuredClone(region.shared.save())
      region.term++
      region.shared = this.#protocol(region, saved)
    } else {
      region.store = memoryStore({ clock: region.clock.store })
      const { storeMs } = region.clock.at(this.timeline.nowMs)
      region.incarnation = stampText({ ms: storeMs, count: ++region.losses })
      region.shared = this.#protocol(region)
    }
    this.#referee.lost(region.index, incident.loses)
    this.#step(region.index, 0)
  }

  #protocol(
    region: Pick<SimulatedRegion, 'clock' | 'index' | 'incarnation' | 'term'>,
    saved?: SharedSaved,
  ): SharedRegion {
    const { limit, blind, floor, exchangeMs } = this.setup
    const { clock, index, incarnation, term } = region
    const shared = new SharedRegion(
      {
        ...{ regions: this.#shares, self: nameOf(index), limit, incarnation },
        ...{ blind, floor, exchangeMs },
      },
      clock.at(this.timeline.nowMs),
      saved,
    )
    shared.lead(term)
    return shared
  }

  #tick(region: SimulatedRegion): void {
    if (this.timeline.nowMs < region.downUntilMs) return
    const times = region.clock.at(this.timeline.nowMs)
    this.#apply(region, region.shared.tick(times))
  }

  #receive(from: number, to: number, body: Uint8Array): void {
    const region = this.regions[to] as SimulatedRegion
    if (this.timeline.nowMs < region.downUntilMs) return
    const times = region.clock.at(this.timeline.nowMs)
    this.#apply(region, region.shared.receive(nameOf(from), decodeShared(body), times))
    this.#referee.checked(to)
  }

  #apply(region: SimulatedRegion, { adjust, sends }: SharedEffects): void {
    const limit = region.shared.counterLimit
    for (const { key, units } of adjust) region.store.adjust([{ name: NAME, limit, key, units }])
    for (const { to, message } of sends) {
      this.network.send(region.index, Number(to.slice(1)), encodeShared(message))
    }
  }
}

/** Sorted like the numbers. */
export function nameOf(region: number): string {
  return `r${region}`
}

export function windowMsOf(limit: Limit): number {
  return lifetimeMs(limit)
}
