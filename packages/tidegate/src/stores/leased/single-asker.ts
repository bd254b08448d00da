/** Asks a store for single counters of one limit, and remembers what it said. */

import type { Limit } from '../../algorithms/limit.ts'
import { steadyClock } from '../../clock.ts'
import type { Decision } from '../../decision.ts'
import type { MaybePromise, Receiver, Store } from '../store.ts'
import type { Denials } from './denials.ts'
import type { LeasedCounters } from './leased-counters.ts'

export interface SingleAskerParts {
  readonly store: Store
  readonly name: string
  readonly limit: Limit
  /** What the labels of its counters begin with. */
  readonly labelStart: string
  readonly denials: Denials
  /** Where the limit is leased. */
  readonly counters: LeasedCounters | undefined
}

export class SingleAsker {
  readonly #parts: SingleAskerParts
  readonly #charge: (key: string, cost: number) => MaybePromise<Decision>
  readonly #tell: ((key: string, cost: number, receiver: Receiver) => void) | undefined

  constructor(
    parts: SingleAskerParts,
    charge: (key: string, cost: number) => MaybePromise<Decision>,
  ) {
    this.#parts = parts
    this.#charge = charge
    this.#tell = parts.store.teller?.(parts.name, parts.limit)
  }

  ask(key: string, cost: number, sentMs: number): MaybePromise<Decision> {
    const tell = this.#tell
    if (tell === undefined) {
      const decision = this.#charge(key, cost)
      if (!(decision instanceof Promise)) return this.#learn(key, cost, sentMs, decision)
      return decision.then((settled) => this.#learn(key, cost, sentMs, settled))
    }
    return new Promise((resolve, reject) => {
      const onDecision = (decision: Decision) => {
        resolve(this.#learn(key, cost, sentMs, decision))
      }
      tell(key, cost, { resolve: onDecision, reject })
    })
  }

  #learn(key: string, cost: number, sentMs: number, decision: Decision): Decision {
    const { limit, labelStart, denials, counters } = this.#parts
    if (!decision.allowed) {
      const times = { sentMs, nowMs: steadyClock.now() }
      const onCalls = (calls: number, nowMs: number) => counters?.count(key, calls, nowMs)
      denials.add(labelStart + key, { limits: [limit], cost }, [decision], times, onCalls)
    }
    if (counters !== undefined && counters.size > 0) counters.learn(limit, key, decision)
    return decision
  }
}
