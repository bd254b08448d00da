/**
 * Decides about limits in the mode `shared` with the region's own counter. It counts in parts of a
 * unit: an own unit costs all parts until every region has counted it, and then the exchanger gives
 * back all but the part of this region. So the region that has no messages has its share.
 */

import type { Adjustment, Callback, Charge, Counter, Decision, Store } from 'tidegate'
import { RecentDenials } from '../peer/recent-denials.ts'
import type { LimitParts, RegionLimit, SharedParts } from '../region-limits.ts'
import { keyDigest } from '../topology.ts'
import { AdmittedUnits } from './admitted-units.ts'

/** A counter of this region, in parts of a unit. */
export interface SharedPlace {
  readonly parts: LimitParts
  readonly shared: SharedParts
  readonly counter: Counter
  readonly label: string
}

/** The bytes of a digest between regions, which are 72 bits. */
const DIGEST_CHARACTERS = 12

/** Time for an exchange: a denial may end when other regions have counted the units of this one. */
const NOT_YET_MS = 1_000

/** About one exchange. A flood on an exhausted key does not reach the store meanwhile. */
const REPEAT_MS_MAX = 200

/** The counter of the store has no units that were admitted without it. */
export function isSure({ degraded }: Decision): boolean {
  return degraded === null || degraded.reason === 'unconfirmed'
}

export class SharedCharges {
  readonly admitted = new AdmittedUnits()
  readonly #store: Store
  readonly #denials = new RecentDenials(REPEAT_MS_MAX)

  constructor(store: Store) {
    this.#store = store
  }

  placeOf(region: RegionLimit, { name, key, limit }: Counter): SharedPlace {
    const parts = region.partsOf(limit)
    const shared = parts.shared as SharedParts
    const digest = keyDigest(name, key).slice(0, DIGEST_CHARACTERS)
    const counter = { name, key: digest, limit: shared.counter }
    return { parts, shared, counter, label: `${name}\0${digest}` }
  }

  chargeOne(place: SharedPlace, asked: Counter, cost: number, done: Callback) {
    const denied = this.#denials.find(place.label, cost, performance.now())
    if (denied !== undefined) return denied
    const finish = (decision: Decision) => {
      const shown = this.charged(place, asked, decision)
      if (!shown.allowed) this.#denials.add(place.label, cost, shown, performance.now())
      return shown
    }
    const call: Callback = {
      startMs: done.startMs,
      resolve: (decision) => done.resolve(finish(decision)),
      reject: (error) => done.reject(error),
    }
    const known = this.#store.chargeOne(place.counter, cost * place.shared.whole, call)
    return known && finish(known)
  }

  /** Takes note of a decision about a charge, and returns it in units. */
  charged(place: SharedPlace, asked: Counter, decision: Decision): Decision {
    const shown = this.shown(place, decision)
    const { granted } = shown
    if (granted > 0 && isSure(shown)) this.note(place, asked, granted)
    return shown
  }

  /** Units that were charged, or are now charged after they were set aside. */
  note({ parts, counter }: SharedPlace, { limit }: Counter, units: number): void {
    this.admitted.note(counter.name, limit, parts, counter.key, units)
  }

  /** A decision about parts as one about units. */
  shown({ shared, counter }: SharedPlace, decision: Decision): Decision {
    const { whole, known, capacity } = shared
    const { allowed, remaining, granted, retryAfterMs } = decision
    const left = Math.floor(remaining / (allowed ? known : whole))
    const isNotYet = !allowed && retryAfterMs !== Infinity && this.admitted.isRecent(counter.key)
    return {
      ...decision,
      limit: capacity,
      remaining: Math.min(capacity, left),
      granted: Math.floor(granted / whole),
      retryAfterMs: isNotYet ? Math.min(retryAfterMs, NOT_YET_MS) : retryAfterMs,
    }
  }

  /** The charge on the region's counter. */
  divided(place: SharedPlace, charge: Charge): Charge {
    return { ...charge, ...place.counter, cost: charge.cost * place.shared.whole }
  }

  adjusted(place: SharedPlace, adjustment: Adjustment): Adjustment {
    return { ...adjustment, ...place.counter, units: adjustment.units * place.shared.whole }
  }

  /** Forgets what is remembered of a key whose units were changed. */
  forget({ label }: SharedPlace): void {
    this.#denials.forget(label)
  }
}
