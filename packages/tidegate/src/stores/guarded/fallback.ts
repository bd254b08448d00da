/**
 * Decisions without the store, as each limit declares: `onStoreError` for an outage, `onOverload`
 * for a call that could not be sent in time.
 *
 * A group stays all or nothing: a closed or shed limit refuses all of it, and then no local share
 * is charged.
 */

import { LEASE_MARK } from '../../algorithms/holds.ts'
import { capacityOf, type Limit } from '../../algorithms/limit.ts'
import type { Decision, Degraded } from '../../decision.ts'
import type { Observer } from '../../observer.ts'
import type { Adjustment, Charge, ChargeMode } from '../store.ts'
import {
  impossibleDecision,
  openDecision,
  refusedDecision,
  shedDecision,
  sparedDecision,
} from './fallback-decisions.ts'
import type { GuardedSettings } from './guarded-options.ts'
import type { LocalShares } from './local/local-shares.ts'

type Reason = Degraded['reason']
type Mode = Degraded['mode']

/** The shortest retry time for a client if the limiter is unavailable. */
const CLOSED_RETRY_MS_MIN = 1_000

export class Fallback {
  readonly #settings: GuardedSettings
  readonly #local: LocalShares
  readonly #observer: Observer

  constructor(settings: GuardedSettings, local: LocalShares, observer: Observer) {
    this.#settings = settings
    this.#local = local
    this.#observer = observer
  }

  /** `waitMs` is how long the store will not be asked. */
  decide(
    group: readonly Charge[],
    mode: ChargeMode,
    reason: Reason,
    waitMs: number,
  ): readonly Decision[] {
    const [first] = group
    if (first?.hold?.id.startsWith(LEASE_MARK)) return [this.#declineLease(first, reason)]
    const modes = group.map(({ limit }) => this.#modeOf(limit, reason))
    const isUnavailable = modes.includes('closed') || modes.includes('shed')
    const shares = group.filter((_, at) => modes[at] === 'local')
    const isImpossible = group.some((charge) => isNeverGranted(charge, mode))
    const localMode = isUnavailable || isImpossible ? 'peek' : mode
    const local = shares.length === 0 ? [] : this.#local.charge(shares, localMode)
    const isRefused = isUnavailable || isImpossible || local.some(({ allowed }) => !allowed)
    let next = 0
    const decisions = group.map((charge, at): Decision => {
      switch (modes[at]) {
        case 'closed':
          return refusedDecision(charge, { reason, mode: 'closed' }, closedRetryMs(waitMs))
        case 'shed':
          return shedDecision(charge, reason)
        case 'local':
          return fromShare(local[next++], reason)
        default:
          if (isNeverGranted(charge, mode)) return impossibleDecision(charge, reason)
          return isRefused || mode === 'peek'
            ? sparedDecision(charge, reason, 'open')
            : openDecision(charge, reason)
      }
    })
    const limits = group.map(({ name }) => name)
    this.#observer({ type: 'degraded', reason, mode: worst(modes), allowed: !isRefused, limits })
    return decisions
  }

  /** Adjusts local shares; the store does not learn of it. */
  adjust(group: readonly Adjustment[], reason: Reason): readonly Decision[] {
    return group.map((adjustment) => {
      const mode = this.#modeOf(adjustment.limit, reason)
      if (mode !== 'local') return sparedDecision({ ...adjustment, cost: 0 }, reason, mode)
      const [decision] = this.#local.adjust([adjustment])
      return fromShare(decision, reason)
    })
  }

  /** Without the store there is no lease; units spent from the last one count here. */
  #declineLease({ name, limit, key, cost, settles }: Charge, reason: Reason): Decision {
    const mode = this.#modeOf(limit, reason)
    const units = settles?.units ?? 0
    if (mode === 'local' && units > 0) this.#local.adjust([{ name, limit, key, units }])
    return { ...sparedDecision({ name, limit, key, cost }, reason, mode), allowed: false }
  }

  #modeOf(limit: Limit, reason: Reason): Mode {
    if (reason === 'overloaded') return limit.onOverload ?? this.#settings.onOverload
    return limit.onStoreError ?? this.#settings.onStoreError
  }
}

function fromShare(decision: Decision | undefined, reason: Reason): Decision {
  const degraded = { reason, mode: 'local' } as const
  return { ...(decision as Decision), degraded, source: 'fallback' }
}

/** The strictest mode of a group. */
function worst(modes: readonly Mode[]): Mode {
  const order = ['closed', 'shed', 'local'] as const
  return order.find((mode) => modes.includes(mode)) ?? 'open'
}

function closedRetryMs(waitMs: number): number {
  return Math.max(CLOSED_RETRY_MS_MIN, Math.ceil(waitMs))
}

/** True if neither the store nor a local share could ever grant it, a part of it included. */
function isNeverGranted({ limit, cost }: Charge, mode: ChargeMode): boolean {
  return (mode === 'partial' ? Math.min(cost, 1) : cost) > capacityOf(limit)
}
