/**
 * Regions in the modes `home` and `escrow`: the real stores of a process with their encoding, and
 * memory stores with the real algorithms. Promises settle between two events of the timeline.
 */

import { type Counter, type Decision, type Limit, type MemoryStore, memoryStore } from 'tidegate'
import { reserveName } from '../../../packages/server/src/regions/peer/counter-names.ts'
import { peerService } from '../../../packages/server/src/regions/peer/peer-service.ts'
import { PeerStore } from '../../../packages/server/src/regions/peer/peer-store.ts'
import type { ProcessTime } from '../../../packages/server/src/regions/process-time.ts'
import {
  type RegionLimit,
  regionLimits,
} from '../../../packages/server/src/regions/region-limits.ts'
import { RegionStore } from '../../../packages/server/src/regions/region-store.ts'
import {
  createTopology,
  keyDigest,
  type Topology,
} from '../../../packages/server/src/regions/topology.ts'
import { sumOf } from '../../../packages/tidegate/src/stores/regions/shares.ts'
import { forkedRandom } from '../forked-random.ts'
import type { Incident } from '../incidents.ts'
import { type LinkSettings, Network } from '../network.ts'
import { RegionClock } from '../region-clock.ts'
import { nameOf } from '../shared-world.ts'
import { Timeline } from '../timeline.ts'
import { HomeLink } from './home-link.ts'

export interface HomeSetup {
  readonly seed: number
  readonly mode: 'home' | 'escrow'
  readonly limit: Limit
  /** True if the run ends in the window in which it begins, also for clocks that are wrong. */
  readonly isOneWindow: boolean
  /** A second limit that is charged in the same group, by its home. */
  readonly second: Limit | undefined
  readonly reserve: number
  readonly onCutOff: 'reserve' | 'closed'
  readonly regions: number
  readonly nodes: number
  readonly keys: number
  readonly link: LinkSettings
  readonly deadlineMs: number
  readonly offsetMsMax: number
  readonly drift: number
}

export interface HomeReferee {
  /** A client has its units since now; it asked for them at `askedMs`. */
  admitted(region: number, counter: Counter, units: number, askedMs: number): void
  /** A client has its decision. */
  decided(region: number, askedMs: number): void
  lost(region: number): void
  stepped(region: number): void
}

interface HomeNode {
  /** Requests without a decision. */
  open: number
  store: RegionStore
  links: readonly HomeLink[]
  isClosed: boolean
}

export interface HomeRegion {
  readonly index: number
  readonly clock: RegionClock
  readonly topology: Topology
  readonly limits: ReadonlyMap<string, RegionLimit>
  readonly nodes: HomeNode[]
  store: MemoryStore
  downUntilMs: number
  /** Regions that operators have given up here, and when. */
  forgotten: readonly { readonly name: string; readonly atMs: number }[]
}

/** Requests at the same moment; each asks for a part of the units. */
const CALLS_MAX = 2

/** Requests that follow one another more quickly come one by one, which is cheaper. */
const BURST_MS = 50

const FIRST = 'first'
const SECOND = 'second'

export class HomeWorld {
  readonly timeline = new Timeline()
  readonly network: Network
  readonly regions: readonly HomeRegion[]
  readonly setup: HomeSetup
  readonly #referee: HomeReferee
  readonly #random
  #isStirred = false
  #error: unknown

  constructor(setup: HomeSetup, referee: HomeReferee) {
    this.setup = setup
    this.#referee = referee
    this.#random = forkedRandom(setup.seed, 'nodes')
    const links = forkedRandom(setup.seed, 'links')
    this.network = new Network(this.timeline, links, setup.link, () => undefined)
    const random = forkedRandom(setup.seed, 'clocks')
    this.regions = Array.from({ length: setup.regions }, (_, index) => {
      const drift = ((random.below(2_001) - 1_000) / 1_000) * setup.drift
      const offsetMs = random.below(2 * setup.offsetMsMax + 1) - setup.offsetMsMax
      const clock = new RegionClock(drift, offsetMs, random.below(1_000_000))
      const topology = createTopology(nameOf(index), { list: listOf(setup.regions) })
      const limits = regionLimits({ limits: limitsOf(setup) as never }, topology)
      const store = memoryStore({ clock: clock.store })
      const state = { nodes: [], store, downUntilMs: 0, forgotten: [] }
      return { index, clock, topology, limits, ...state }
    })
    for (const region of this.regions) this.#startNodes(region)
  }

  play(incidents: readonly Incident[]): void {
    for (const incident of incidents) {
      this.timeline.at(incident.atMs, () => this.#begin(incident))
    }
  }

  /** Runs all events until `untilMs`, and what follows from each before the next one. */
  async runUntil(untilMs: number): Promise<void> {
    do {
      while (this.#isStirred) {
        this.#isStirred = false
        await settled()
      }
      if (this.#error !== undefined) throw this.#error
    } while (this.timeline.runNext(untilMs))
  }

  /** Requests without a decision, but for those of dead processes. */
  get open(): number {
    return sumOf(this.regions.flatMap(({ nodes }) => nodes.map(({ open }) => open)))
  }

  /** All counters that clients charge. */
  counters(): Counter[] {
    const { keys } = this.setup
    return [...Array.from({ length: keys }, (_, key) => this.#first(key)), ...this.#second()]
  }

  #first(key: number): Counter {
    return { name: FIRST, limit: this.setup.limit, key: `key${key}` }
  }

  #second(): Counter[] {
    const { second } = this.setup
    return second === undefined ? [] : [{ name: SECOND, limit: second, key: 'all' }]
  }

  /** Asks for units in one request. `done` has the decision, unless the process dies. */
  ask(index: number, key: number, cost: number, done?: (isAllowed: boolean) => void): void {
    const region = this.regions[index] as HomeRegion
    if (!this.#isUp(region)) return
    const node = region.nodes[this.#random.below(region.nodes.length)] as HomeNode
    region.clock.at(this.timeline.nowMs)
    const askedMs = this.timeline.nowMs
    const counters = [this.#first(key), ...this.#second()]
    node.open++
    const finish = (decisions: readonly Decision[]) => {
      if (node.isClosed) return
      node.open--
      this.#guarded(() => {
        const isAllowed = decisions.every(({ allowed }) => allowed)
        for (const counter of isAllowed ? counters : []) {
          this.#referee.admitted(index, counter, cost, askedMs)
        }
        this.#referee.decided(index, askedMs)
        done?.(isAllowed)
      })
    }
    this.#charge(node, counters, cost, finish)
  }

  #charge(
    node: HomeNode,
    counters: readonly Counter[],
    cost: number,
    finish: (decisions: readonly Decision[]) => void,
  ): void {
    const reject = (error: unknown) => {
      this.#error ??= error
    }
    const [first] = counters as [Counter]
    if (counters.length === 1) {
      const resolve = (decision: Decision) => finish([decision])
      const decision = node.store.chargeOne(first, cost, { resolve, reject })
      if (decision !== undefined) finish([decision])
      else this.#isStirred = true
      return
    }
    this.#isStirred = true
    const group = counters.map((counter) => ({ ...counter, cost }))
    Promise.resolve(node.store.charge(group, 'all')).then(finish, reject)
  }

  /** Units that are used or set aside of a counter, in all stores. */
  used({ name, key, limit }: Counter): number {
    let used = 0
    for (const region of this.regions) {
      region.clock.at(this.timeline.nowMs)
      for (const counter of countersOf(region, { name, key, limit })) {
        const { remaining } = region.store.chargeOne(counter, 0)
        used += counter.limit.limit - remaining
      }
    }
    return used
  }

  #begin(incident: Incident): void {
    const { timeline } = this
    switch (incident.kind) {
      case 'demand': {
        const { region, key, units, everyMs, forMs } = incident
        const calls = everyMs < BURST_MS ? 1 : Math.min(units, CALLS_MAX)
        const cost = Math.ceil(units / calls)
        timeline.every(everyMs, timeline.nowMs, timeline.nowMs + forMs, () => {
          for (let call = 0; call < calls; call++) this.ask(region, key, cost)
        })
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
        this.#crash(this.regions[incident.region] as HomeRegion, incident)
        break
      case 'forget':
        this.#forget(this.regions[incident.region] as HomeRegion, incident.delaysMs)
        break
      case 'twoExchangers':
      case 'epoch':
        break
    }
  }

  #crash(region: HomeRegion, { loses, forMs }: Incident & { kind: 'crash' }): void {
    region.downUntilMs = Math.max(region.downUntilMs, this.timeline.nowMs + forMs)
    if (loses === 'nothing') return
    if (loses === 'store') {
      region.store = memoryStore({ clock: region.clock.store })
      this.#referee.lost(region.index)
    }
    this.#startNodes(region)
  }

  /** The processes of a region end for good, and operators tell the other regions. */
  #forget(lost: HomeRegion, delaysMs: readonly number[]): void {
    const atMs = this.timeline.nowMs
    lost.downUntilMs = Infinity
    this.#startNodes(lost)
    for (const region of this.regions) {
      if (region === lost) continue
      this.timeline.after(delaysMs[region.index] ?? 0, () => {
        region.forgotten = [...region.forgotten, { name: nameOf(lost.index), atMs }]
        for (const node of region.nodes) this.#tellForgotten(region, node)
      })
    }
  }

  #tellForgotten({ forgotten }: HomeRegion, { store }: HomeNode): void {
    const { nowMs } = this.timeline
    store.forgotten.use(forgotten.map(({ name, atMs }) => ({ name, ageMs: nowMs - atMs })))
  }

  /** The home of a key by the first region that is up; for others, the key may be cut off. */
  homeOf({ name, key, limit }: Counter): HomeRegion | undefined {
    const { topology, nodes } = this.regions.find((one) => this.#isUp(one)) ?? {}
    const forgotten = nodes?.[0]?.store.forgotten
    const isLeftOut = (region: string) => forgotten?.isReplaced(region, limit) === true
    const home = topology?.homeOf(keyDigest(name, key), isLeftOut)
    return this.regions.find((one) => one.topology.self === home)
  }

  /** Replaces the processes of a region. */
  #startNodes(region: HomeRegion): void {
    for (const node of region.nodes) {
      node.isClosed = true
      for (const link of node.links) link.close()
    }
    const random = forkedRandom(this.setup.seed, `start${region.index} ${this.timeline.nowMs}`)
    const nodes = Array.from({ length: this.setup.nodes }, () => {
      const links = region.topology.peers.map((peer) => this.#link(region, peer, random.below(500)))
      const node: HomeNode = { open: 0, links, isClosed: false, store: undefined as never }
      const time = this.#timeOf(region, node)
      const peers = new Map(
        links.map((link) => [link.peer, { link, store: new PeerStore(link, time) }] as const),
      )
      const { topology, limits } = region
      node.store = new RegionStore(region.store, topology, peers, limits, time)
      this.#tellForgotten(region, node)
      return node
    })
    region.nodes.splice(0, region.nodes.length, ...nodes)
  }

  #link(region: HomeRegion, peer: string, firstPingMs: number): HomeLink {
    const to = Number(peer.slice(1))
    return new HomeLink(
      {
        ...{ peer, from: region.index, to, network: this.network, timeline: this.timeline },
        deadlineMs: this.setup.deadlineMs,
        handlerOf: () => this.#handlerOf(this.regions[to] as HomeRegion),
        stir: () => {
          this.#isStirred = true
        },
      },
      firstPingMs,
    )
  }

  #handlerOf(region: HomeRegion) {
    if (!this.#isUp(region)) return undefined
    region.clock.at(this.timeline.nowMs)
    const handle = peerService(region.store, (name) => region.limits.get(name)?.mode)
    return async (from: number, body: Uint8Array) => handle(nameOf(from), body)
  }

  #timeOf(region: HomeRegion, node: HomeNode): ProcessTime {
    return {
      now: () => region.clock.at(this.timeline.nowMs).steadyMs,
      every: (intervalMs, run) => {
        let isStopped = false
        const step = () => {
          if (isStopped || node.isClosed) return
          if (this.#isUp(region)) run()
          this.timeline.after(intervalMs, step)
        }
        this.timeline.after(intervalMs, step)
        return () => {
          isStopped = true
        }
      },
    }
  }

  /** An error of the referee ends the run, also in the callback of a promise. */
  #guarded(run: () => void): void {
    try {
      run()
    } catch (error) {
      this.#error ??= error
    }
  }

  #isUp({ downUntilMs }: HomeRegion): boolean {
    return this.timeline.nowMs >= downUntilMs
  }
}

/** The counters of a region for one that regions share: its reserve, and all at home. */
function countersOf({ limits, topology }: HomeRegion, { name, key, limit }: Counter): Counter[] {
  const digest = keyDigest(name, key)
  const { home, reserve } = (limits.get(name) as RegionLimit).partsOf(limit)
  const isHome = topology.homeOf(digest) === topology.self
  return [
    ...(isHome ? [{ name, key: digest, limit: home }] : []),
    ...(reserve === undefined ? [] : [{ name: reserveName(name), key: digest, limit: reserve }]),
  ]
}

/** Ticks run when no promise has a callback left, which is sooner than a turn of the loop. */
function settled(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve))
}

function listOf(regions: number) {
  return Object.fromEntries(
    Array.from({ length: regions }, (_, index) => [nameOf(index), { endpoint: '', share: 1 }]),
  )
}

function limitsOf({ mode, reserve, onCutOff, second }: HomeSetup): readonly object[] {
  const first = { name: FIRST, regions: { mode, reserve, onCutOff } }
  if (second === undefined) return [first]
  return [first, { name: SECOND, regions: { mode: 'home', reserve, onCutOff } }]
}
