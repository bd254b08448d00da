/**
 * Decides about a counter whose units are at the home of its key. In this order: units that were
 * leased (`escrow`), the reserve of this region, the home, and `onCutOff` if it does not answer. At
 * home itself, its store decides first.
 *
 * Never more than the limit: the parts add up to it, and each is enforced by one store.
 */

import { type Charge, type Counter, chargeSingle, type Decision, type Store } from 'tidegate'
import { EscrowPools, type KeyPool } from './escrow/escrow-pools.ts'
import { ForgottenRegions } from './forgotten-regions.ts'
import { cutOffName, reserveName } from './peer/counter-names.ts'
import { canGiveBack } from './peer/give-back.ts'
import type { Peer } from './peer/peer.ts'
import { RecentDenials } from './peer/recent-denials.ts'
import type { ProcessTime } from './process-time.ts'
import type { DecidedBy } from './region-counts.ts'
import type { LimitParts, RegionLimit } from './region-limits.ts'
import { keyDigest, type Topology } from './topology.ts'

/** Where the units of a counter are. */
export interface HomePlace {
  readonly region: RegionLimit
  readonly parts: LimitParts
  /** The counter at home. */
  readonly counter: Counter
  /** The counter of this region's own units. */
  readonly reserve: Counter | undefined
  /** Undefined if the home is here. */
  readonly peer: Peer | undefined
  readonly label: string
}

export interface Decided {
  readonly decision: Decision
  readonly by: DecidedBy
}

/** A client that is refused because a region is cut off may ask again after this time. */
const CUT_OFF_RETRY_MS = 1_000

export class HomeCharges {
  readonly pools: EscrowPools
  readonly forgotten: ForgottenRegions
  readonly #store: Store
  readonly #topology: Topology
  readonly #peers: ReadonlyMap<string, Peer>
  readonly #time: ProcessTime
  readonly #denials = new RecentDenials()

  constructor(
    store: Store,
    topology: Topology,
    peers: ReadonlyMap<string, Peer>,
    time: ProcessTime,
  ) {
    this.#store = store
    this.#topology = topology
    this.#peers = peers
    this.#time = time
    this.forgotten = new ForgottenRegions(topology.self, time)
    this.pools = new EscrowPools(topology.names.length, time)
  }

  placeOf(region: RegionLimit, { name, key, limit }: Counter): HomePlace {
    const digest = keyDigest(name, key)
    const parts = region.partsOf(limit)
    const reserve = parts.reserve && { name: reserveName(name), key: digest, limit: parts.reserve }
    const counter = { name, key: digest, limit: parts.home }
    const isLeftOut = (region: string) => this.forgotten.isReplaced(region, limit)
    const peer = this.#peers.get(this.#topology.homeOf(digest, isLeftOut))
    return { region, parts, counter, reserve, peer, label: `${name}\0${digest}` }
  }

  /** Spends leased units; undefined if there are too few. */
  fromPool(place: HomePlace, cost: number): Decision | undefined {
    const key = this.#poolOf(place)
    if (key === undefined || !this.pools.spend(key, cost)) return undefined
    const { here, home } = this.pools.leftOf(key)
    return {
      allowed: true,
      limit: capacityOf(place),
      remaining: here + home,
      retryAfterMs: 0,
      resetAfterMs: key.resetAfterMs,
      granted: cost,
      degraded: null,
      source: 'lease',
    }
  }

  /** Decides without leased units, after `fromPool`. */
  async decide(place: HomePlace, cost: number): Promise<Decided> {
    const remembered = this.#denials.find(place.label, cost, this.#time.now())
    if (remembered !== undefined) return { decision: remembered, by: 'cache' }
    if (place.peer === undefined) return this.#atHome(place, cost)
    const own = await this.#reserve(place, cost)
    if (own?.allowed === true) return { decision: own, by: 'reserve' }
    const leased = await this.#awaitPool(place, cost)
    if (leased !== undefined) return { decision: leased, by: 'pool' }
    const decision = await this.#askHome(place, cost)
    if (decision === undefined) {
      return { decision: await this.#cutOff(place, cost, own), by: 'cut-off' }
    }
    if (decision.allowed) return { decision, by: 'link' }
    const denial = sooner(decision, own)
    this.#denials.add(place.label, cost, denial, this.#time.now())
    return { decision: denial, by: 'link' }
  }

  /** The decision that a charge would have now, without leased units. */
  async peek(place: HomePlace, charge: Charge): Promise<Decided> {
    const { counter, peer, reserve } = place
    const { cost } = charge
    const own = reserve && (await peekAt(this.#store, { ...reserve, cost }))
    try {
      const decision = await peekAt(peer?.store ?? this.#store, { ...charge, ...counter })
      const isHome = decision.allowed || own?.allowed !== true
      if (isHome) return { decision, by: peer === undefined ? 'home' : 'link' }
    } catch {
      const isCutOff = own?.allowed !== true
      if (isCutOff) {
        return { decision: await this.#cutOff(place, cost, own, 'peek'), by: 'cut-off' }
      }
    }
    return { decision: own, by: 'reserve' }
  }

  /** Charges the home itself: for units that are set aside, and for partial grants. */
  async chargeHome(place: HomePlace, charge: Charge, mode: 'all' | 'partial') {
    const { counter, peer } = place
    const asked = { ...charge, ...counter }
    try {
      const [decision] = await (peer?.store ?? this.#store).charge([asked], mode)
      return { decision: decision as Decision, by: peer === undefined ? 'home' : 'link' } as const
    } catch {
      return { decision: refused(place, 'closed'), by: 'cut-off' } as const
    }
  }

  /** Gives units back that were charged since `askedMs` and then not needed. */
  undo(place: HomePlace, { decision, by }: Decided, askedMs: number): void {
    const { granted } = decision
    if (granted === 0 || by === 'cut-off') return
    if (by === 'pool') {
      const key = this.#poolOf(place)
      if (key !== undefined) this.pools.unspend(key, granted)
      return
    }
    const store = by === 'reserve' ? this.#store : (place.peer?.store ?? this.#store)
    const counter = by === 'reserve' ? (place.reserve ?? place.counter) : place.counter
    if (!canGiveBack(counter.limit, decision, this.#time.now() - askedMs)) return
    void Promise.resolve(store.adjust([{ ...counter, units: -granted }])).catch(() => undefined)
  }

  /** Forgets what is remembered of a key whose units were changed. */
  forget({ label }: HomePlace): void {
    this.#denials.forget(label)
  }

  async #atHome(place: HomePlace, cost: number): Promise<Decided> {
    const decision = await chargeSingle(this.#store, place.counter, cost)
    if (decision.allowed || decision.degraded !== null) return { decision, by: 'home' }
    const own = await this.#reserve(place, cost)
    if (own?.allowed === true) return { decision: own, by: 'reserve' }
    const denial = sooner(decision, own)
    // With `escrow`, blocks come back at any time, and the front of the store notices it.
    const isRemembered = place.region.mode === 'home'
    if (isRemembered) this.#denials.add(place.label, cost, denial, this.#time.now())
    return { decision: denial, by: 'home' }
  }

  async #reserve(place: HomePlace, cost: number): Promise<Decision | undefined> {
    const { reserve } = place
    return reserve && (await chargeSingle(this.#store, reserve, cost))
  }

  #poolOf({ parts, peer, label, counter }: HomePlace): KeyPool | undefined {
    if (!parts.isLeasable || peer === undefined) return undefined
    return this.pools.of(label, counter, peer)
  }

  /** Units that are on their way serve this call too. */
  async #awaitPool(place: HomePlace, cost: number): Promise<Decision | undefined> {
    const asked = this.#poolOf(place)?.asked
    if (asked === undefined) return undefined
    await asked
    return this.fromPool(place, cost)
  }

  /** Undefined if the home does not answer. */
  async #askHome(place: HomePlace, cost: number): Promise<Decision | undefined> {
    const { peer, counter } = place
    try {
      const [decision] = (await peer?.store.charge([{ ...counter, cost }], 'all')) ?? []
      const key = this.#poolOf(place)
      if (key !== undefined && decision !== undefined) this.pools.learn(key, decision)
      return decision
    } catch {
      return undefined
    }
  }

  async #cutOff(
    place: HomePlace,
    cost: number,
    own: Decision | undefined,
    mode: 'all' | 'peek' = 'all',
  ): Promise<Decision> {
    const { region, parts, counter } = place
    switch (region.onCutOff) {
      case 'open':
        return { ...refused(place, 'open'), allowed: true, retryAfterMs: 0, granted: cost }
      case 'local': {
        const name = cutOffName(region.name)
        const share = { name, key: counter.key, limit: parts.share }
        const isPeek = mode === 'peek'
        const decision = isPeek
          ? await peekAt(this.#store, { ...share, cost })
          : await chargeSingle(this.#store, share, cost)
        return { ...decision, degraded: { reason: 'region-cut-off', mode: 'local' } }
      }
      case 'reserve':
        if (own === undefined) return refused(place, 'closed')
        return { ...own, degraded: { reason: 'region-cut-off', mode: 'local' } }
      case 'closed':
        return refused(place, 'closed')
    }
  }
}

async function peekAt(store: Store, charge: Charge): Promise<Decision> {
  const [decision] = await store.charge([charge], 'peek')
  return decision as Decision
}

function capacityOf({ counter: { limit } }: HomePlace): number {
  return limit.algorithm === 'tokenBucket' ? limit.burst : limit.limit
}

function refused(place: HomePlace, mode: 'open' | 'closed'): Decision {
  return {
    allowed: false,
    limit: capacityOf(place),
    remaining: 0,
    retryAfterMs: CUT_OFF_RETRY_MS,
    resetAfterMs: CUT_OFF_RETRY_MS,
    granted: 0,
    degraded: { reason: 'region-cut-off', mode },
    source: 'fallback',
  }
}

/** Two denials: a client that waits for the sooner one is admitted. */
function sooner(one: Decision, other: Decision | undefined): Decision {
  if (other === undefined || other.retryAfterMs >= one.retryAfterMs) return one
  return { ...one, retryAfterMs: other.retryAfterMs }
}
