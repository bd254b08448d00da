/**
 * What waits is written into as few script calls as can be: plain charges of a token bucket, nearly
 * all there are, by the script made for them, everything else by the general one, where requests
 * for the same counter become one charge and groups of the same shape are described once.
 */

import type { Limit } from '../../algorithms/limit.ts'
import type { TokenBucketParams } from '../../algorithms/token-bucket.ts'
import type { Decision } from '../../decision.ts'
import type { Charge, ChargeMode } from '../store.ts'
import {
  bucketDecisionAt,
  decisionAt,
  LimitArgs,
  modeArg,
  readReply,
  type ScriptCall,
} from './script-call.ts'
import { chargeScript, chargeTokenBucketScript } from './scripts.generated.ts'

/** A group and who waits for it. */
export interface Pending {
  readonly group: readonly Charge[]
  readonly keys: readonly string[]
  readonly mode: ChargeMode
  readonly resolve: (decisions: readonly Decision[]) => void
  readonly reject: (error: unknown) => void
}

/** A call, who waits for it, and what its reply means to them. */
export interface BatchCall extends ScriptCall {
  readonly waiting: readonly Pending[]
  /** Resolves those who wait; returns those that need the general script instead. */
  settle(reply: unknown): readonly Pending[]
}

/** The same counter, limit and cost, in the order in which they came. */
interface Charges {
  readonly limit: Limit
  readonly cost: number
  readonly pending: Pending[]
}

/** Writes the calls for what waits. `now` is the server's time as far as this process knows. */
export function writeCalls(waiting: readonly Pending[], now: number, timeArg: string): BatchCall[] {
  const [alone] = waiting
  if (waiting.length === 1 && alone !== undefined) return [callAlone(alone, now, timeArg)]
  const { single, rest } = sortOut(waiting)
  const fast = new Map<Limit, Map<number, Pending[]>>()
  const general: Pending[][] = rest.map((pending) => [pending])
  for (const { limit, cost, pending } of single) {
    if (pending.length > 1 || limit.algorithm !== 'tokenBucket' || cost === 0) {
      general.push(pending)
      continue
    }
    const ofLimit = fast.get(limit) ?? new Map<number, Pending[]>()
    if (ofLimit.size === 0) fast.set(limit, ofLimit)
    const known = ofLimit.get(cost)
    if (known === undefined) ofLimit.set(cost, pending)
    else known.push(pending[0] as Pending)
  }
  const calls: BatchCall[] = []
  for (const [limit, costs] of fast) {
    for (const [cost, pending] of costs) {
      calls.push(bucketCall(limit as TokenBucketParams, cost, pending, timeArg))
    }
  }
  if (general.length > 0) calls.push(generalCall(general, now, timeArg))
  return calls
}

function callAlone(alone: Pending, now: number, timeArg: string): BatchCall {
  const [charge] = alone.group
  const isPlain = alone.group.length === 1 && alone.mode === 'all' && charge?.hold === undefined
  if (isPlain && charge?.limit.algorithm === 'tokenBucket' && charge.cost > 0) {
    return bucketCall(charge.limit, charge.cost, [alone], timeArg)
  }
  return generalCall([[alone]], now, timeArg)
}

/** For those that the script for plain charges has left. */
export function writeGeneralCall(waiting: readonly Pending[], now: number, timeArg: string) {
  return generalCall(
    waiting.map((pending) => [pending]),
    now,
    timeArg,
  )
}

/** Plain charges of single counters, put together where they are the same; and all others. */
function sortOut(waiting: readonly Pending[]) {
  const byKey = new Map<string, Charges>()
  const single: Charges[] = []
  const rest: Pending[] = []
  for (const one of waiting) {
    const [charge] = one.group
    if (charge === undefined || one.group.length > 1 || one.mode !== 'all' || charge.hold) {
      rest.push(one)
      continue
    }
    const { limit, cost } = charge
    const known = byKey.get(one.keys[0] as string)
    if (known !== undefined && known.limit === limit && known.cost === cost) {
      known.pending.push(one)
      continue
    }
    const charges = { limit, cost, pending: [one] }
    byKey.set(one.keys[0] as string, charges)
    single.push(charges)
  }
  return { single, rest }
}

function bucketCall(
  limit: TokenBucketParams,
  cost: number,
  waiting: readonly Pending[],
  timeArg: string,
): BatchCall {
  const { burst, unitsPerToken, unitsPerMs } = limit
  return {
    script: chargeTokenBucketScript,
    keys: waiting.map(({ keys }) => keys[0] as string),
    args: [timeArg, ...[cost, burst, unitsPerToken, unitsPerMs].map(String)],
    waiting,
    settle(reply) {
      const left: Pending[] = []
      for (const [at, one] of waiting.entries()) {
        const decision = bucketDecisionAt(reply, at, limit, cost)
        if (decision === undefined) left.push(one)
        else one.resolve([decision])
      }
      return left
    },
  }
}

/** Each entry is one group, or several plain charges of the same counter. */
function generalCall(entries: readonly Pending[][], now: number, timeArg: string): BatchCall {
  const limits = new LimitArgs()
  const keys: string[] = []
  const runs: string[] = []
  for (let at = 0; at < entries.length; ) {
    const first = entries[at] as Pending[]
    const from = at
    while (at < entries.length && isSameRun(entries[at] as Pending[], first)) {
      keys.push(...((entries[at] as Pending[])[0]?.keys ?? []))
      at++
    }
    runs.push(String(at - from), ...shapeArgs(first, limits))
  }
  return {
    script: chargeScript,
    keys,
    args: [timeArg, ...limits.write(now), ...runs],
    waiting: entries.flat(),
    settle(reply) {
      let at = 0
      for (const pending of entries) {
        settleEntry(pending, reply, at)
        at += pending[0]?.group.length ?? 0
      }
      return []
    },
  }
}

function settleEntry(pending: readonly Pending[], reply: unknown, at: number): void {
  const [first] = pending
  const group = first?.group ?? []
  if (pending.length === 1) {
    first?.resolve(group.map(({ limit }, index) => decisionAt(reply, at + index, limit)))
    return
  }
  // Charges that were sent as one: the first ones have what was granted, in order.
  const { limit, cost } = group[0] as Charge
  const own = readReply(reply, at)
  for (const [place, one] of pending.entries()) {
    const isGranted = place < own.granted
    const laterUnits = isGranted ? (own.granted - 1 - place) * cost : 0
    const granted = isGranted ? cost : -1
    const integers = [0, granted, own.remaining + laterUnits, own.retry, own.reset]
    one.resolve([decisionAt(integers, 0, limit)])
  }
}

/** Entries that differ only in their keys are described once. */
function isSameRun(one: readonly Pending[], other: readonly Pending[]): boolean {
  if (one === other) return true
  const [first, second] = [one[0], other[0]]
  if (one.length !== other.length || first?.mode !== second?.mode) return false
  const [charges, others] = [first?.group ?? [], second?.group ?? []]
  return (
    charges.length === others.length &&
    charges.every((charge, at) => {
      const twin = others[at]
      const isPlain = charge.hold === undefined && twin?.hold === undefined
      return isPlain && charge.limit === twin?.limit && charge.cost === twin?.cost
    })
  )
}

function shapeArgs(pending: readonly Pending[], limits: LimitArgs): string[] {
  const { group = [], mode = 'all' } = pending[0] ?? {}
  const args = [modeArg(mode), String(pending.length), String(group.length)]
  for (const { limit, cost, hold } of group) {
    args.push(limits.numberOf(limit), String(cost), String(hold?.ttlMs ?? 0), hold?.id ?? '')
  }
  return args
}
