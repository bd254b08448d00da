/**
 * Writes waiting charges into as few script calls as possible. Plain charges, which are nearly all,
 * and leases of token buckets have scripts of their own. The general script takes everything else:
 * charges of one counter become one, and groups of the same shape are described once.
 */

import { LEASE_MARK } from '../../../algorithms/holds.ts'
import type { Limit } from '../../../algorithms/limit.ts'
import type { TokenBucketParams } from '../../../algorithms/token-bucket.ts'
import type { Decision } from '../../../decision.ts'
import type { Charge, ChargeMode } from '../../store.ts'
import { bucketGroupArgs, bucketGroupDecisions, isBucketGroup } from '../scripts/bucket-groups.ts'
import { hasFastPath } from '../scripts/fast-path.ts'
import {
  decisionAt,
  LEASE_MODE,
  LimitArgs,
  leaseArgs,
  leaseDecisionAt,
  modeArg,
  readReply,
  unconfirmed,
} from '../scripts/script-arguments.ts'
import {
  chargeScript,
  chargeTokenBucketGroupsScript,
  leaseTokenBucketScript,
} from '../scripts/scripts.generated.ts'
import type { ServerTime } from '../server-time.ts'
import { type BatchCall, FastCall, NONE_LEFT } from './batch-call.ts'
import { inTurns } from './in-turns.ts'
import {
  chargesAt,
  countAt,
  type GroupCharge,
  isGroup,
  keysOf,
  type PlainCharge,
  type Waiting,
} from './waiting.ts'

/** Up to this many charges of one counter take less time one by one on the fast path. */
export const SAME_MAX = 8

/** Shapes of groups with a call of their own; more of them would be many small commands. */
const SHAPES_MAX = 8

/** Writes the call of a charge that is alone and has no followers. */
export function writeLoneCall(alone: Waiting, time: ServerTime): BatchCall {
  const timeArg = time.argument()
  if (isFast(alone)) return new FastCall([alone], [alone.key], timeArg)
  if (isGroup(alone) && isBucketLease(alone)) return leaseCall([alone], timeArg)
  if (isGroup(alone) && isFastGroup(alone)) return groupCall([alone], timeArg)
  return generalCall([[alone]], time)
}

/** Writes the calls of waiting charges. */
export function writeCalls(waiting: readonly Waiting[], time: ServerTime): BatchCall[] {
  const [alone] = waiting
  if (waiting.length === 1 && alone !== undefined && countAt(alone) === 1) {
    return [writeLoneCall(alone, time)]
  }
  const timeArg = time.argument()
  if (areAlike(waiting)) return [fastCall(waiting, timeArg)]
  const { plain, groups } = sortOut(waiting)
  const fast = new Map<Limit, Map<number, PlainCharge[]>>()
  const { leases, others } = sortOutLeases(groups)
  const calls = [...leases.values()].map((same) => leaseCall(same, timeArg))
  const shapes = sortOutShapes(others)
  const general: (readonly Waiting[])[] = shapes.general.map((group) => [group])
  for (const same of plain) {
    const first = same[0] as PlainCharge
    if (same.length > SAME_MAX || !isFast(first)) {
      general.push(same)
      continue
    }
    const ofLimit = fast.get(first.limit) ?? new Map<number, PlainCharge[]>()
    if (ofLimit.size === 0) fast.set(first.limit, ofLimit)
    const ofCost = ofLimit.get(first.cost)
    if (ofCost === undefined) ofLimit.set(first.cost, same)
    else for (const charge of same) ofCost.push(charge)
  }
  for (const costs of fast.values()) {
    for (const charges of costs.values()) calls.push(fastCall(charges, timeArg))
  }
  for (const same of shapes.fast) calls.push(groupCall(same, timeArg))
  if (general.length > 0) calls.push(generalCall(general, time))
  return calls
}

/** Writes a call of the general script, for charges that the fast path cannot serve. */
export function writeGeneralCall(waiting: readonly Waiting[], time: ServerTime): BatchCall {
  const entries = waiting.map((one) => [one])
  return generalCall(entries, time)
}

function isFast(waiting: Waiting): waiting is PlainCharge {
  return !isGroup(waiting) && !waiting.hasHolds && waiting.cost > 0 && hasFastPath(waiting.limit)
}

/**
 * True for charges of one limit and cost without followers, which most batches are. The queue
 * ensures that at most `SAME_MAX` of them have the same counter.
 */
function areAlike(waiting: readonly Waiting[]): waiting is readonly PlainCharge[] {
  const first = waiting[0] as Waiting
  if (!isFast(first)) return false
  const { limit, cost } = first
  for (const one of waiting) {
    if (!isFast(one) || one.limit !== limit || one.cost !== cost) return false
    if (one.followers !== undefined) return false
  }
  return true
}

function isFastGroup({ keys, group, mode, hasHolds }: GroupCharge): boolean {
  return hasHolds !== true && mode === 'all' && isBucketGroup(keys, group)
}

/**
 * Groups for the fast path by their shapes, and all others. Groups of a key stay in order: shapes
 * that share a key with each other, or with the others, go to the general script.
 */
function sortOutShapes(groups: readonly GroupCharge[]) {
  const shapes: GroupCharge[][] = []
  const placeOf = (group: GroupCharge) =>
    isFastGroup(group)
      ? shapes.findIndex(([first]) => isSameRun([group], [first as GroupCharge]))
      : SHAPES_MAX
  const places = groups.map((group) => {
    const place = placeOf(group)
    if (place >= 0) shapes[place]?.push(group)
    else if (shapes.length < SHAPES_MAX) return shapes.push([group]) - 1
    return place >= 0 ? place : SHAPES_MAX
  })
  const placeOfKey = new Map<string, number>()
  const shared = new Set([SHAPES_MAX])
  for (const [at, { keys }] of groups.entries()) {
    const place = places[at] as number
    for (const key of keys) {
      const other = placeOfKey.get(key) ?? place
      if (other !== place) shared.add(place).add(other)
      placeOfKey.set(key, place)
    }
  }
  return {
    fast: shapes.filter((_, place) => !shared.has(place)),
    general: groups.filter((_, at) => shared.has(places[at] as number)),
  }
}

/** A call of the fast path of groups of token buckets, all of one shape. */
function groupCall(groups: readonly GroupCharge[], timeArg: string): BatchCall {
  const [first] = groups as readonly [GroupCharge]
  return {
    script: chargeTokenBucketGroupsScript,
    keys: groups.flatMap(({ keys }) => keys),
    args: bucketGroupArgs(first.group, timeArg),
    waiting: groups,
    hasTime: false,
    settle(reply, isConfirmed) {
      return groups.filter(({ group, resolve }, at) => {
        const decisions = bucketGroupDecisions(reply, at, group)
        if (decisions !== undefined) resolve(isConfirmed ? decisions : decisions.map(unconfirmed))
        return decisions === undefined
      })
    },
  }
}

/** A single lease of a token bucket. */
function isBucketLease({ group, mode }: GroupCharge): boolean {
  if (mode !== 'partial' || group.length > 1) return false
  const [charge] = group
  if (charge?.limit.algorithm !== 'tokenBucket' || charge.cost === 0) return false
  return charge.hold?.id.startsWith(LEASE_MARK) === true
}

/** Leases of token buckets by their limits, and all other groups. Groups of a key stay in order. */
function sortOutLeases(groups: readonly GroupCharge[]) {
  const leases = new Map<Limit, GroupCharge[]>()
  const others: GroupCharge[] = []
  const otherKeys = new Set<string>()
  for (const group of groups) {
    if (!isBucketLease(group)) for (const key of group.keys) otherKeys.add(key)
  }
  for (const group of groups) {
    if (!isBucketLease(group) || otherKeys.has(group.keys[0] as string)) {
      others.push(group)
      continue
    }
    const { limit } = group.group[0] as Charge
    const same = leases.get(limit)
    if (same === undefined) leases.set(limit, [group])
    else same.push(group)
  }
  return { leases, others }
}

/** A call for leases of one limit. */
function leaseCall(leases: readonly GroupCharge[], timeArg: string): BatchCall {
  const charges = leases.map(({ group }) => group[0] as Charge)
  const limit = charges[0]?.limit as TokenBucketParams
  return {
    script: leaseTokenBucketScript,
    keys: leases.flatMap(({ keys }) => keys),
    args: leaseArgs(limit, charges, timeArg),
    waiting: leases,
    hasTime: true,
    settle(reply, isConfirmed) {
      return leases.filter((lease, at) => {
        const decision = leaseDecisionAt(reply, at, limit)
        if (decision !== undefined) lease.resolve([isConfirmed ? decision : unconfirmed(decision)])
        return decision === undefined
      })
    },
  }
}

/**
 * Plain charges, together if counter, limit and cost are the same, in the order of their arrival;
 * and all others.
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
    const charges = chargesAt(one) as readonly PlainCharge[]
    if (known !== undefined && first?.limit === one.limit && first.cost === one.cost) {
      for (const charge of charges) known.push(charge)
      continue
    }
    const same = [...charges]
    byKey.set(one.key, same)
    plain.push(same)
  }
  return { plain, groups }
}

function fastCall(charges: readonly PlainCharge[], timeArg: string): BatchCall {
  const keys: string[] = []
  for (const { key } of charges) keys.push(key)
  return new FastCall(charges, keys, timeArg)
}

/** Each entry is one group or charge, or several plain charges of the same counter. */
function generalCall(entries: ReadonlyArray<readonly Waiting[]>, time: ServerTime): BatchCall {
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
    args: [time.argument(), ...limits.write(time.now()), ...runs],
    waiting: entries.flat(),
    hasTime: true,
    settle(reply, isConfirmed) {
      let at = 0
      for (const entry of entries) {
        settleEntry(entry, reply, at, isConfirmed)
        at += keysOf(entry[0] as Waiting).length
      }
      return NONE_LEFT
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
  if (entry.length === 1) {
    first.resolve(sure(decisionAt(reply, at, first.limit)))
    return
  }
  settleSame(entry as readonly PlainCharge[], readReply(reply, at), sure)
}

/** Charges that were sent as one: the first ones get the units that were granted, in order. */
function settleSame(
  charges: readonly PlainCharge[],
  { granted, remaining, retry, reset }: ReturnType<typeof readReply>,
  sure: (decision: Decision) => Decision,
): void {
  const { limit, cost } = charges[0] as PlainCharge
  const denied = sure(decisionAt([0, -1, remaining, retry, reset], 0, limit))
  inTurns(charges.length, (place) => {
    const one = charges[place] as PlainCharge
    if (place >= granted) {
      one.resolve(denied)
      return
    }
    const left = remaining + (granted - 1 - place) * cost
    one.resolve(sure(decisionAt([0, cost, left, retry, reset], 0, limit)))
  })
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
