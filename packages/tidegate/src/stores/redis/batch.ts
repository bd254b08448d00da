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
  bucketArgs,
  bucketDecisionAt,
  decisionAt,
  LEASE_MODE,
  LimitArgs,
  modeArg,
  readReply,
  type ScriptCall,
  unconfirmed,
} from './script-call.ts'
import { chargeScript, chargeTokenBucketScript } from './scripts.generated.ts'

/** A charge of one counter, all or nothing, and who waits for it. */
export interface PlainCharge {
  readonly key: string
  readonly limit: Limit
  readonly cost: number
  readonly resolve: (decision: Decision) => void
  readonly reject: (error: unknown) => void
}

/** Any group and who waits for it. */
export interface GroupCharge {
  readonly keys: readonly string[]
  readonly group: readonly Charge[]
  readonly mode: ChargeMode
  readonly resolve: (decisions: readonly Decision[]) => void
  readonly reject: (error: unknown) => void
}

export type Waiting = PlainCharge | GroupCharge

/** A call, who waits for it, and what its reply means to them. */
export interface BatchCall extends ScriptCall {
  readonly waiting: readonly Waiting[]
  /** Resolves those who wait; returns those that need the general script instead. */
  settle(reply: unknown, isConfirmed: boolean): readonly Waiting[]
}

const NONE: readonly Waiting[] = []

/** Writes the calls for what waits. `now` is the server's time as far as this process knows. */
export function writeCalls(waiting: readonly Waiting[], now: number, timeArg: string): BatchCall[] {
  const [alone] = waiting
  if (waiting.length === 1 && alone !== undefined) {
    if (isForBucket(alone)) return [bucketCall([alone], timeArg)]
    return [generalCall([waiting], now, timeArg)]
  }
  const { plain, groups } = sortOut(waiting)
  const fast = new Map<Limit, Map<number, PlainCharge[]>>()
  const general: (readonly Waiting[])[] = groups.map((group) => [group])
  for (const same of plain.values()) {
    const first = same[0] as PlainCharge
    if (same.length > 1 || !isForBucket(first)) {
      general.push(same)
      continue
    }
    const ofLimit = fast.get(first.limit) ?? new Map<number, PlainCharge[]>()
    if (ofLimit.size === 0) fast.set(first.limit, ofLimit)
    const ofCost = ofLimit.get(first.cost)
    if (ofCost === undefined) ofLimit.set(first.cost, same)
    else ofCost.push(first)
  }
  const calls: BatchCall[] = []
  for (const costs of fast.values()) {
    for (const charges of costs.values()) calls.push(bucketCall(charges, timeArg))
  }
  if (general.length > 0) calls.push(generalCall(general, now, timeArg))
  return calls
}

/** For those that the script for plain charges has left. */
export function writeGeneralCall(waiting: readonly Waiting[], now: number, timeArg: string) {
  const entries = waiting.map((one) => [one])
  return generalCall(entries, now, timeArg)
}

function isGroup(waiting: Waiting): waiting is GroupCharge {
  return 'group' in waiting
}

function isForBucket(waiting: Waiting): waiting is PlainCharge {
  return !isGroup(waiting) && waiting.limit.algorithm === 'tokenBucket' && waiting.cost > 0
}

/**
 * Plain charges, together where counter, limit and cost are the same, in the order in which they
 * came; and all others.
 */
function sortOut(waiting: readonly Waiting[]) {
  const byKey = new Map<string, PlainCharge[]>()
  const plain: PlainCharge[][] = []
  const groups: GroupCharge[] = []
  for (const one of waiting) {
    if (isGroup(one)) {
      groups.push(one)
      continue
    }
    const known = byKey.get(one.key)
    const first = known?.[0]
    if (known !== undefined && first?.limit === one.limit && first.cost === one.cost) {
      known.push(one)
      continue
    }
    const same = [one]
    byKey.set(one.key, same)
    plain.push(same)
  }
  return { plain, groups }
}

/** All of the same limit and cost. */
function bucketCall(charges: readonly PlainCharge[], timeArg: string): BatchCall {
  const { limit, cost } = charges[0] as PlainCharge & { limit: TokenBucketParams }
  const keys: string[] = []
  for (const { key } of charges) keys.push(key)
  return {
    script: chargeTokenBucketScript,
    keys,
    args: bucketArgs(limit, cost, timeArg),
    waiting: charges,
    settle(reply, isConfirmed) {
      let left: PlainCharge[] | undefined
      for (let at = 0; at < charges.length; at++) {
        const charge = charges[at] as PlainCharge
        const decision = bucketDecisionAt(reply, at, limit, cost)
        if (decision !== undefined) charge.resolve(isConfirmed ? decision : unconfirmed(decision))
        else if (left === undefined) left = [charge]
        else left.push(charge)
      }
      return left ?? NONE
    },
  }
}

/** Each entry is one group or charge, or several plain charges of the same counter. */
function generalCall(
  entries: ReadonlyArray<readonly Waiting[]>,
  now: number,
  timeArg: string,
): BatchCall {
  const limits = new LimitArgs()
  const keys: string[] = []
  const runs: string[] = []
  for (let at = 0; at < entries.length; ) {
    const first = entries[at] as readonly Waiting[]
    const from = at
    while (at < entries.length && isSameRun(entries[at] as readonly Waiting[], first)) {
      keys.push(...keysOf((entries[at] as readonly Waiting[])[0] as Waiting))
      at++
    }
    runs.push(String(at - from), ...shapeArgs(first, limits))
  }
  return {
    script: chargeScript,
    keys,
    args: [timeArg, ...limits.write(now), ...runs],
    waiting: entries.flat(),
    settle(reply, isConfirmed) {
      let at = 0
      for (const entry of entries) {
        settleEntry(entry, reply, at, isConfirmed)
        at += keysOf(entry[0] as Waiting).length
      }
      return NONE
    },
  }
}

function settleEntry(
  entry: readonly Waiting[],
  reply: unknown,
  at: number,
  isConfirmed: boolean,
): void {
  const sure = (decision: Decision) => (isConfirmed ? decision : unconfirmed(decision))
  const first = entry[0] as Waiting
  if (isGroup(first)) {
    first.resolve(first.group.map(({ limit }, index) => sure(decisionAt(reply, at + index, limit))))
    return
  }
  const { limit, cost } = first
  if (entry.length === 1) {
    first.resolve(sure(decisionAt(reply, at, limit)))
    return
  }
  // Charges that were sent as one: the first ones have what was granted, in order.
  const own = readReply(reply, at)
  for (const [place, one] of (entry as readonly PlainCharge[]).entries()) {
    const isGranted = place < own.granted
    const laterUnits = isGranted ? (own.granted - 1 - place) * cost : 0
    const granted = isGranted ? cost : -1
    const integers = [0, granted, own.remaining + laterUnits, own.retry, own.reset]
    one.resolve(sure(decisionAt(integers, 0, limit)))
  }
}

function keysOf(waiting: Waiting): readonly string[] {
  return isGroup(waiting) ? waiting.keys : [waiting.key]
}

type ChargePart = Pick<Charge, 'limit' | 'cost' | 'hold' | 'settles'>

function chargesOf(waiting: Waiting): readonly ChargePart[] {
  return isGroup(waiting) ? waiting.group : [waiting]
}

function modeOf(waiting: Waiting): ChargeMode {
  return isGroup(waiting) ? waiting.mode : 'all'
}

/** Entries that differ only in their keys are described once. */
function isSameRun(one: readonly Waiting[], other: readonly Waiting[]): boolean {
  if (one === other) return true
  const [first, second] = [one[0] as Waiting, other[0] as Waiting]
  if (one.length !== other.length || modeOf(first) !== modeOf(second)) return false
  const [charges, others] = [chargesOf(first), chargesOf(second)]
  return (
    charges.length === others.length &&
    charges.every((charge, at) => {
      const twin = others[at]
      const isPlain = charge.hold === undefined && twin?.hold === undefined
      return isPlain && charge.limit === twin?.limit && charge.cost === twin?.cost
    })
  )
}

function shapeArgs(entry: readonly Waiting[], limits: LimitArgs): string[] {
  const first = entry[0] as Waiting
  const charges = chargesOf(first)
  const settles = charges[0]?.settles
  const mode = settles === undefined ? modeArg(modeOf(first)) : LEASE_MODE
  const args = [mode, String(entry.length), String(charges.length)]
  for (const { limit, cost, hold } of charges) {
    args.push(limits.numberOf(limit), String(cost), String(hold?.ttlMs ?? 0), hold?.id ?? '')
  }
  if (settles !== undefined) args.push(settles.release, String(settles.units))
  return args
}
