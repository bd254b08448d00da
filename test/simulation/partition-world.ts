/**
 * Regions in the mode `partition`: the real protocol of loans and epochs, nodes that learn a share
 * late, and memory stores with the real algorithms.
 */

import { type Limit, lifetimeMs } from '../../packages/tidegate/src/algorithms/limit.ts'
import {
  type MemoryStore,
  memoryStore,
} from '../../packages/tidegate/src/stores/memory/memory-store.ts'
import { stampText } from '../../packages/tidegate/src/stores/regions/hlc.ts'
import {
  decodePartition,
  encodePartition,
} from '../../packages/tidegate/src/stores/regions/partition-messages.ts'
import {
  PartitionRegion,
  type PartitionSend,
} from '../../packages/tidegate/src/stores/regions/partition-region.ts'
import { limitPart, PARTS_MAX } from '../../packages/tidegate/src/stores/regions/shares.ts'
import { forkedRandom } from './forked-random.ts'
import type { Incident } from './incidents.ts'
import { type LinkSettings, Network } from './network.ts'
import { RegionClock } from './region-clock.ts'
import { nameOf } from './shared-world.ts'
import { Timeline } from './timeline.ts'

export interface PartitionSetup {
  readonly seed: number
  readonly limit: Limit
  /** Parts of 10,000; a region with none is added later. */
  readonly bases: readonly number[]
  readonly link: LinkSettings
  readonly offsetMsMax: number
  readonly drift: number
  readonly ticketMs: number
  readonly ttlMs: number
  /** Demand is an average over this time. */
  readonly smoothMs: number
}

export interface PartitionReferee {
  admitted(region: number, units: number): void
  /** A node of the region uses another share from now on. */
  changed(region: number): void
  lost(region: number): void
  stepped(region: number): void
}

interface Node {
  share: number
}

export interface PartitionedRegion {
  readonly index: number
  readonly clock: RegionClock
  readonly nodes: readonly Node[]
  store: MemoryStore
  protocol: PartitionRegion
  downUntilMs: number
  losses: number
  admitted: number
  denied: number
}

const NODES = 2
const KEY = 'key'
const TICK_MS = 1_000

export class PartitionWorld {
  readonly timeline = new Timeline()
  readonly network: Network
  readonly regions: readonly PartitionedRegion[]
  readonly setup: PartitionSetup
  readonly #referee: PartitionReferee
  #epoch = 1
  #bases: readonly number[]
  #basesBefore: readonly number[] | undefined

  constructor(setup: PartitionSetup, referee: PartitionReferee) {
    this.setup = setup
    this.#referee = referee
    this.#bases = setup.bases
    const random = forkedRandom(setup.seed, 'clocks')
    this.regions = setup.bases.map((base, index) => {
      const drift = ((random.below(2_001) - 1_000) / 1_000) * setup.drift
      const offsetMs = random.below(2 * setup.offsetMsMax + 1) - setup.offsetMsMax
      const clock = new RegionClock(drift, offsetMs, random.below(1_000_000))
      const nodes = Array.from({ length: NODES }, () => ({ share: base }))
      const counts = { downUntilMs: 0, losses: 0, admitted: 0, denied: 0 }
      const store = memoryStore({ clock: clock.store })
      return { index, clock, nodes, ...counts, store, protocol: this.#protocol(clock, index, 0) }
    })
    const links = forkedRandom(setup.seed, 'links')
    this.network = new Network(this.timeline, links, setup.link, (from, to, body) => {
      this.#receive(from, to, body)
    })
  }

  start(untilMs: number): void {
    const { timeline, setup } = this
    const random = forkedRandom(setup.seed, 'phases')
    for (const region of this.regions) {
      timeline.every(TICK_MS, random.below(TICK_MS), untilMs, () => this.#tick(region))
      const rebalanceMs = setup.ttlMs / 3 + random.below(1_000)
      timeline.every(rebalanceMs, random.below(rebalanceMs), untilMs, () => {
        if (!this.#isUp(region)) return
        this.#send(region, region.protocol.rebalance(this.#steadyMs(region)))
      })
      for (const node of region.nodes) {
        // At least one heartbeat within each ticket.
        const everyMs = setup.ticketMs * (0.3 + random.below(60) / 100)
        timeline.every(everyMs, random.below(everyMs), untilMs, () => this.#renew(region, node))
      }
    }
  }

  play(incidents: readonly Incident[]): void {
    for (const incident of incidents) {
      this.timeline.at(incident.atMs, () => this.#begin(incident))
    }
  }

  get shares(): readonly number[] {
    return this.regions.map((region) => region.protocol.shareAt(this.#steadyMs(region)))
  }

  get lastsMs(): number {
    return lifetimeMs(this.setup.limit)
  }

  demand(index: number, units: number): number {
    const region = this.regions[index] as PartitionedRegion
    if (!this.#isUp(region)) return 0
    region.clock.at(this.timeline.nowMs)
    let admitted = 0
    for (const node of region.nodes) {
      const limit = limitPart(this.setup.limit, node.share, PARTS_MAX)
      const counter = { name: 'limit', limit, key: KEY }
      const { remaining } = region.store.chargeOne(counter, 0)
      const granted = Math.min(Math.ceil(units / NODES), remaining)
      if (granted === 0) continue
      region.store.chargeOne(counter, granted)
      admitted += granted
      this.#referee.admitted(index, granted)
    }
    region.admitted += admitted
    region.denied += Math.max(0, units - admitted)
    return admitted
  }

  #begin(incident: Incident): void {
    const { timeline } = this
    switch (incident.kind) {
      case 'demand': {
        const { region, units, everyMs, forMs } = incident
        const untilMs = timeline.nowMs + forMs
        timeline.every(everyMs, timeline.nowMs, untilMs, () => this.demand(region, units))
        break
      }
      case 'cut':
        this.network.cut(incident.from, incident.to, incident.forMs)
        break
      case 'step':
        this.regions[incident.region]?.clock.step(incident.ms)
        this.#referee.stepped(incident.region)
        break
      case 'crash':
        this.#crash(this.regions[incident.region] as PartitionedRegion, incident)
        break
      case 'twoExchangers': {
        const region = this.regions[incident.region] as PartitionedRegion
        timeline.every(70, timeline.nowMs, timeline.nowMs + incident.forMs, () => {
          this.#tick(region)
        })
        break
      }
      case 'epoch':
        this.#changeEpoch(incident.bases)
        break
    }
  }

  #changeEpoch(bases: readonly number[]): void {
    this.#basesBefore = this.#bases
    this.#bases = bases
    this.#epoch++
    const next = this.#epoch
    const random = forkedRandom(this.setup.seed, `epoch${next}`)
    for (const region of this.regions) {
      // Regions see a policy at different times.
      this.timeline.after(random.below(5_000), () => {
        region.protocol.changeEpoch(next, basesOf(bases), this.#steadyMs(region))
      })
    }
  }

  #crash(region: PartitionedRegion, incident: Incident & { kind: 'crash' }): void {
    region.downUntilMs = Math.max(region.downUntilMs, this.timeline.nowMs + incident.forMs)
    if (incident.loses !== 'store') return
    region.store = memoryStore({ clock: region.clock.store })
    region.protocol = this.#protocol(region.clock, region.index, ++region.losses)
    this.#referee.lost(region.index)
  }

  #protocol(clock: RegionClock, index: number, losses: number): PartitionRegion {
    const times = clock.at(this.timeline.nowMs)
    const before = this.#basesBefore
    const { ticketMs, ttlMs, smoothMs } = this.setup
    return new PartitionRegion(
      {
        self: nameOf(index),
        limit: this.setup.limit,
        incarnation: stampText({ ms: times.storeMs, count: losses }),
        epoch: this.#epoch,
        bases: basesOf(this.#bases),
        ...(losses > 0 && before !== undefined ? { basesBefore: basesOf(before) } : {}),
        isLearning: losses > 0,
        firstId: losses * 1_000_000,
        times: { ticketMs, ttlMs, smoothMs },
      },
      times.steadyMs,
    )
  }

  #tick(region: PartitionedRegion): void {
    if (!this.#isUp(region)) return
    const { admitted, denied, protocol } = region
    protocol.report(admitted, denied, TICK_MS)
    region.admitted = 0
    region.denied = 0
    this.#send(region, protocol.tick(this.#steadyMs(region)))
  }

  #renew(region: PartitionedRegion, node: Node): void {
    const share = region.protocol.shareAt(this.#steadyMs(region))
    if (share === node.share) return
    node.share = share
    this.#referee.changed(region.index)
  }

  #receive(from: number, to: number, body: Uint8Array): void {
    const region = this.regions[to] as PartitionedRegion
    if (!this.#isUp(region)) return
    const message = decodePartition(body)
    this.#send(region, region.protocol.receive(nameOf(from), message, this.#steadyMs(region)))
  }

  #send(region: PartitionedRegion, sends: readonly PartitionSend[]): void {
    for (const { to, message } of sends) {
      this.network.send(region.index, Number(to.slice(1)), encodePartition(message))
    }
  }

  #isUp(region: PartitionedRegion): boolean {
    return this.timeline.nowMs >= region.downUntilMs
  }

  #steadyMs(region: PartitionedRegion): number {
    return region.clock.at(this.timeline.nowMs).steadyMs
  }
}

export function basesOf(bases: readonly number[]): ReadonlyMap<string, number> {
  return new Map(
    bases.flatMap((parts, index) => (parts === 0 ? [] : [[nameOf(index), parts] as const])),
  )
}
