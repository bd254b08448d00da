/**
 * The counters of one request, charged and put together into a verdict. Limits that are enforced
 * are one group: all are charged or none. Those in shadow mode are asked one by one and only once
 * the others have admitted the request, because a request that is refused would not have reached
 * them.
 */

import { createHash } from 'node:crypto'
import {
  type Adjustment,
  type AppliedLimit,
  type Charge,
  combineDecisions,
  type Decision,
  type MaybePromise,
  type Store,
} from 'tidegate'
import type { CompiledLimit } from './compiled-limit.ts'
import type { PolicyObserver } from './policy-observer.ts'
import type { Verdict } from './verdict.ts'

/** A counter to charge, and the limit that it belongs to. */
export interface Asked {
  readonly compiled: CompiledLimit
  readonly charge: Charge
}

export interface ChargeContext {
  readonly store: Store
  readonly observer: PolicyObserver
}

const noKeys = () => []

/** For requests that no limit is for. */
export const unlimited: Verdict = Object.freeze({
  outcome: 'admitted',
  evaluation: undefined,
  shadowed: Object.freeze([]),
  shadowing: undefined,
  refusedBy: undefined,
  keys: noKeys,
  release: undefined,
})

/** For a request without the key that a limit needs. */
export function keyless(limit: string): Verdict {
  return { ...unlimited, outcome: 'keyless', refusedBy: limit }
}

/** With `peek`, says what would be said and changes nothing. */
export function chargeGroup(
  enforced: readonly Asked[],
  shadows: readonly Asked[],
  { store, observer }: ChargeContext,
  mode: 'all' | 'peek' = 'all',
): MaybePromise<Verdict> {
  const context = { store, observer }
  const [first] = enforced
  if (first === undefined) return verdictOf(enforced, [], shadows, context, mode)
  const charger = enforced.length === 1 && mode === 'all' ? chargerOf(first, store) : undefined
  if (charger !== undefined) {
    const { key, cost } = first.charge
    const conclude = (decision: Decision) =>
      shadows.length === 0
        ? verdictOfOne(first, decision)
        : verdictOf(enforced, [decision], shadows, context, mode)
    const decision = charger(key, cost)
    return decision instanceof Promise ? decision.then(conclude) : conclude(decision)
  }
  const conclude = (decisions: readonly Decision[]) =>
    verdictOf(enforced, decisions, shadows, context, mode)
  const charges = enforced.map(({ charge }) => charge)
  const decisions = store.charge(charges, mode)
  return decisions instanceof Promise ? decisions.then(conclude) : conclude(decisions)
}

/** The shorter way to the store, for a charge that is nothing but a charge. */
function chargerOf({ charge, compiled }: Asked, store: Store) {
  const isPlain = charge.within === undefined && charge.hold === undefined
  return isPlain ? compiled.chargerOf(store, charge.limit) : undefined
}

/** The same as `verdictOf` says of one limit that holds nothing; most requests have one. */
function verdictOfOne(asked: Asked, decision: Decision): Verdict {
  const { charge } = asked
  const applied = [appliedOf(charge, decision)]
  const outcome = outcomeOf(applied)
  return {
    outcome,
    evaluation: { decision, applied },
    shadowed: unlimited.shadowed,
    shadowing: undefined,
    refusedBy: outcome === 'admitted' ? undefined : charge.name,
    keys: () => [hashed(charge)],
    release: undefined,
  }
}

function verdictOf(
  enforced: readonly Asked[],
  decisions: readonly Decision[],
  shadows: readonly Asked[],
  context: ChargeContext,
  mode: 'all' | 'peek',
): Verdict {
  const applied = enforced.map(({ charge }, at) => appliedOf(charge, decisions[at] as Decision))
  const [first] = decisions
  const decision =
    first === undefined || decisions.length === 1
      ? first
      : combineDecisions(
          applied.map(({ name }) => name),
          decisions,
        )
  const evaluation = decision === undefined ? undefined : { decision, applied }
  const keys = () => [...enforced, ...shadows].map(({ charge }) => hashed(charge))
  const outcome = outcomeOf(applied)
  if (outcome !== 'admitted') {
    const refusedBy = refuser(applied)
    return { ...unlimited, outcome, evaluation, refusedBy, keys }
  }
  const { shadowed, shadowing } = askShadows(shadows, context, mode)
  const hasSlots = mode === 'all' && (enforced.some(isSlot) || shadows.some(isSlot))
  const slots = hasSlots ? [...enforced, ...shadows].filter(isSlot) : []
  const release = hasSlots ? releaser(slots, context.store, shadowing) : undefined
  return { outcome, evaluation, shadowed, shadowing, refusedBy: undefined, keys, release }
}

function appliedOf({ name, limit }: Charge, decision: Decision): AppliedLimit {
  return { name, limit, decision }
}

/** `unavailable` if the store did not answer, or not in time: nothing was used up. */
function outcomeOf(applied: readonly AppliedLimit[]): Verdict['outcome'] {
  let outcome: Verdict['outcome'] = 'admitted'
  for (const { decision } of applied) {
    if (decision.allowed) continue
    const mode = decision.degraded?.mode
    if (mode === 'closed' || mode === 'shed') return 'unavailable'
    outcome = 'denied'
  }
  return outcome
}

/** Of those that said no, the one with the longest wait, which is the one that decides. */
function refuser(applied: readonly AppliedLimit[]): string | undefined {
  let found: AppliedLimit | undefined
  for (const one of applied) {
    if (one.decision.allowed) continue
    if (found === undefined || one.decision.retryAfterMs > found.decision.retryAfterMs) found = one
  }
  return found?.name
}

function askShadows(
  shadows: readonly Asked[],
  { store, observer }: ChargeContext,
  mode: 'all' | 'peek',
): Pick<Verdict, 'shadowed' | 'shadowing'> {
  if (shadows.length === 0) return unlimited
  const shadowed: AppliedLimit[] = []
  const pending: Promise<void>[] = []
  for (const { charge } of shadows) {
    const keep = ([decision]: readonly Decision[]) => {
      if (decision !== undefined) shadowed.push(appliedOf(charge, decision))
    }
    const fail = (error: unknown) => observer({ type: 'shadow-failed', limit: charge.name, error })
    try {
      const decisions = store.charge([charge], mode)
      if (decisions instanceof Promise) pending.push(decisions.then(keep).catch(fail))
      else keep(decisions)
    } catch (error) {
      fail(error)
    }
  }
  const shadowing = pending.length === 0 ? undefined : Promise.all(pending).then(() => undefined)
  return { shadowed, shadowing }
}

function isSlot({ charge }: Asked): boolean {
  return charge.hold !== undefined
}

function releaser(slots: readonly Asked[], store: Store, shadowing: Promise<void> | undefined) {
  let isReleased = false
  const giveBack = (asked: readonly Asked[]) => {
    if (asked.length === 0) return
    // If giving back fails, the slots are free again when their time is over.
    const done = store.adjust(asked.map(settlement))
    if (done instanceof Promise) done.catch(() => undefined)
  }
  return () => {
    if (isReleased) return
    isReleased = true
    giveBack(slots.filter(({ compiled }) => !compiled.isShadow))
    const shadows = slots.filter(({ compiled }) => compiled.isShadow)
    for (const shadow of shadows) {
      if (shadowing === undefined) giveBack([shadow])
      else void shadowing.then(() => giveBack([shadow]))
    }
  }
}

function settlement({ charge }: Asked): Adjustment {
  const { name, limit, key, within, hold } = charge
  const counter = within === undefined ? { name, limit, key } : { name, limit, key, within }
  return { ...counter, units: 0, release: hold?.id ?? '' }
}

function hashed({ name, key }: Charge) {
  return { limit: name, keyHash: keyHash(key) }
}

/** 64 bits tell the keys of a log apart, and do not say what they are. */
export function keyHash(key: string): string {
  return createHash('sha256').update(key, 'utf16le').digest('hex').slice(0, 16)
}
