/**
 * Charges the limits of one request and puts their decisions together. Limits in shadow mode are
 * charged one by one, after the enforced ones have admitted the request: a refused request would
 * not have reached them. The request does not wait for them.
 */

import type { AppliedLimit, Decision, MaybePromise, Store } from 'tidegate'
import type { ChargeGroups } from './charging/charge-group.ts'
import type { ChargeListener, PlannedCharge } from './charging/charge-plan.ts'
import { type OpenSlot, openSlots, release } from './charging/open-slots.ts'
import type { PolicyObserver } from './limits-observer.ts'
import { enforcedOutcome, type RequestOutcome, unlimited } from './outcome.ts'

export interface EvaluateContext {
  readonly groups: ChargeGroups
  readonly observer: PolicyObserver
  /** Receives every decision that charges. */
  readonly onDecision: ChargeListener | undefined
}

/** Limits in shadow mode are apart from those that are enforced. */
export interface RequestCharges {
  readonly enforced: readonly PlannedCharge[]
  readonly shadows: readonly PlannedCharge[]
}

/** `peek` changes nothing and returns the outcome that `all` would have. */
export function evaluate(
  charges: RequestCharges,
  context: EvaluateContext,
  mode: 'all' | 'peek' = 'all',
): MaybePromise<RequestOutcome> {
  const { groups } = context
  const { enforced } = charges
  const decisions = mode === 'all' ? groups.charge(enforced) : groups.peek(enforced)
  const conclude = (decided: readonly Decision[]) => outcomeOf(charges, decided, context, mode)
  return decisions instanceof Promise ? decisions.then(conclude) : conclude(decisions)
}

function outcomeOf(
  { enforced, shadows }: RequestCharges,
  decisions: readonly Decision[],
  context: EvaluateContext,
  mode: 'all' | 'peek',
): RequestOutcome {
  if (mode === 'all') report(enforced, decisions, context)
  const { outcome, evaluation, refusedBy } = enforcedOutcome(enforced, decisions)
  const keys = () => [...enforced, ...shadows].map(named)
  if (outcome !== 'admitted') return { ...unlimited, outcome, evaluation, refusedBy, keys }
  const { shadowed, shadowing } = watch(shadows, context, mode)
  const hasSlots = mode === 'all' && (enforced.some(isSlot) || shadows.some(isSlot))
  const end = hasSlots ? releaser(enforced, shadows, shadowing, context) : undefined
  return { outcome, evaluation, shadowed, shadowing, refusedBy, keys, release: end }
}

function report(
  charges: readonly PlannedCharge[],
  decisions: readonly Decision[],
  { onDecision }: EvaluateContext,
): void {
  if (onDecision === undefined) return
  for (let at = 0; at < charges.length; at += 1) {
    onDecision(charges[at] as PlannedCharge, decisions[at] as Decision)
  }
}

function watch(
  shadows: readonly PlannedCharge[],
  context: EvaluateContext,
  mode: 'all' | 'peek',
): Pick<RequestOutcome, 'shadowed' | 'shadowing'> {
  if (shadows.length === 0) return unlimited
  const { groups, observer } = context
  const shadowed: AppliedLimit[] = []
  const pending: Promise<void>[] = []
  for (const charge of shadows) {
    const { name, limit } = charge
    const keep = (decisions: readonly Decision[]) => {
      if (mode === 'all') report([charge], decisions, context)
      for (const decision of decisions) shadowed.push({ name, limit, decision })
    }
    const fail = (error: unknown) => observer({ type: 'shadow-failed', limit: name, error })
    try {
      const decisions = mode === 'all' ? groups.charge([charge]) : groups.peek([charge])
      if (decisions instanceof Promise) pending.push(decisions.then(keep).catch(fail))
      else keep(decisions)
    } catch (error) {
      fail(error)
    }
  }
  const shadowing = pending.length === 0 ? undefined : Promise.all(pending).then(() => undefined)
  return { shadowed, shadowing }
}

function isSlot({ hold }: PlannedCharge): boolean {
  return hold !== undefined
}

/** Returns the function that frees the slots of a request, and renews them until it is called. */
function releaser(
  enforced: readonly PlannedCharge[],
  shadows: readonly PlannedCharge[],
  shadowing: Promise<void> | undefined,
  { groups }: EvaluateContext,
): () => void {
  const held = [...enforced, ...shadows].filter(isSlot).map((charge) => {
    const store = groups.storeFor(charge)
    return { charge, store, slot: openSlots(store).add(charge, !charge.isShadow) }
  })
  let isReleased = false
  return () => {
    if (isReleased) return
    isReleased = true
    for (const one of held) {
      if (one.slot !== undefined) openSlots(one.store).remove(one.slot)
      // A slot of a shadow may not have been taken yet.
      if (one.charge.isShadow && shadowing !== undefined) void shadowing.then(() => giveBack(one))
      else giveBack(one)
    }
  }
}

interface HeldSlot {
  readonly charge: PlannedCharge
  readonly store: Store
  readonly slot: OpenSlot | undefined
}

/** If this fails, the slot is free again after its `ttl`. */
function giveBack({ charge, store }: HeldSlot): void {
  const done = store.adjust([release(charge)])
  if (done instanceof Promise) done.catch(() => undefined)
}

function named({ name, key }: PlannedCharge) {
  return { limit: name, key }
}
