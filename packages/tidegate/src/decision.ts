/** The decisions of the engine: plain values. A denial is a value, never an error. */

/**
 * The outcomes that a limit can declare for a store that does not answer: admit; refuse with 503;
 * or enforce this process's share of the limit in memory.
 */
export const failureModes = ['open', 'closed', 'local'] as const

export type FailureMode = (typeof failureModes)[number]

/**
 * The outcomes that a limit can declare for a store that answers but cannot decide a call in time:
 * refuse with 503; enforce this process's share of the limit in memory; or admit.
 */
export const overloadModes = ['shed', 'local', 'open'] as const

export type OverloadMode = (typeof overloadModes)[number]

/** Why, and by which declared mode, a decision was made without the store's full assurance. */
export interface Degraded {
  /**
   * `overloaded`: the call waited too long to be sent, too many waited, or a memory store is
   * full of keys that block clients; nothing was charged.
   * `unconfirmed`: the store has charged, but its replicas have not confirmed it in time.
   * `disabled`: limiting was turned off.
   * `region-cut-off`: the region that has the units of the key cannot be reached.
   */
  readonly reason:
    | 'timeout'
    | 'unreachable'
    | 'breaker-open'
    | 'overloaded'
    | 'store-error'
    | 'unconfirmed'
    | 'disabled'
    | 'region-cut-off'
  readonly mode: FailureMode | OverloadMode
}

/**
 * Where a decision was made. `store`: by the store. `lease`: from units that the store had set
 * aside for this process. `cache`: from an earlier answer of the store that still holds.
 * `fallback`: without the store, as `degraded` explains.
 */
export type DecisionSource = 'store' | 'lease' | 'cache' | 'fallback'

export interface Decision {
  /** Whether the caller may go on. */
  readonly allowed: boolean
  /** Capacity: the largest cost that can be granted at once. */
  readonly limit: number
  /** Whole units that are left after this decision. */
  readonly remaining: number
  /** 0 when allowed; otherwise the exact wait that admits; Infinity when no wait ever does. */
  readonly retryAfterMs: number
  /** The exact time until nothing is used any more. */
  readonly resetAfterMs: number
  /** Units charged: the cost, or less for a partial grant, or 0. */
  readonly granted: number
  /** null in normal operation. */
  readonly degraded: Degraded | null
  readonly source: DecisionSource
}

/** The answer of a limiter with several limits: the most restrictive one decides. */
export interface LayeredDecision<Name extends string = string> extends Decision {
  /** Each limit's own result. */
  readonly limits: Readonly<Record<Name, Decision>>
  /** The limits that denied, in the order in which they were declared. */
  readonly violated: readonly Name[]
}

/**
 * Returns the decision of several limits: that of the denial with the longest wait, or if none
 * denies, of the limit with the fewest units left.
 */
export function combineDecisions<Name extends string>(
  names: readonly Name[],
  decisions: readonly Decision[],
): LayeredDecision<Name> {
  const denied = decisions.filter((decision) => !decision.allowed)
  const deciding = denied.length > 0 ? denied.reduce(longerWait) : decisions.reduce(lessLeft)
  const unsure = decisions.filter((decision) => decision.degraded !== null)
  const degraded = (unsure.find(({ allowed }) => !allowed) ?? unsure[0])?.degraded ?? null
  const limits = names.map((name, at) => [name, decisions[at] as Decision] as const)
  return {
    ...deciding,
    granted: Math.min(...decisions.map((decision) => decision.granted)),
    degraded,
    limits: Object.fromEntries(limits) as Record<Name, Decision>,
    violated: names.filter((_, at) => decisions[at]?.allowed === false),
  }
}

function longerWait(one: Decision, other: Decision): Decision {
  return other.retryAfterMs > one.retryAfterMs ? other : one
}

function lessLeft(one: Decision, other: Decision): Decision {
  if (other.remaining === one.remaining) {
    return other.resetAfterMs > one.resetAfterMs ? other : one
  }
  return other.remaining < one.remaining ? other : one
}
