/** From decisions to a response: a status for each descriptor, and the code of the whole call. */

import type { Decision } from 'tidegate'
import type { DecisionEvent } from '../../limits/charging/charge-plan.ts'
import {
  codes,
  type DescriptorStatus,
  type Header,
  type RateLimitResponse,
} from '../wire/rate-limit-messages.ts'
import { type JsonObject, type JsonValue, mergeStructs } from '../wire/struct.ts'
import type { PlanItem, RlsPlan, ShownLimit } from './rls-plan.ts'

export interface ResponseSettings {
  /** Every call is admitted, and the statuses show the decisions. */
  readonly isShadowMode: boolean
  /** The names of limit, remaining and reset; undefined for no headers. */
  readonly headerNames: readonly [limit: string, remaining: string, reset: string] | undefined
  readonly hasDynamicMetadata: boolean
}

/** The outcome of a call, before shadow mode of the whole service. */
export type CallOutcome = 'within' | 'over' | 'store-failed'

type Event = DecisionEvent<ShownLimit>

const UINT32_MAX = 0xffff_ffff

const unlimitedStatus: DescriptorStatus = {
  code: codes.ok,
  currentLimit: undefined,
  limitRemaining: UINT32_MAX,
  resetSeconds: undefined,
}

const unknownStatus: DescriptorStatus = { ...unlimitedStatus, limitRemaining: 0 }

const refusedStatus: DescriptorStatus = { ...unknownStatus, code: codes.overLimit }

const noHeaders: readonly Header[] = []

/** A definite denial takes precedence over a store that did not answer. */
export function callOutcome({ items }: RlsPlan, events: readonly Event[]): CallOutcome {
  let isOver = false
  let isDoubtful = false
  let hasQuota = false
  let hasQuotaRoom = false
  for (const event of events) {
    const { charge } = event
    if (charge === undefined || charge.isShadow || charge.isNegative) continue
    const code = codeOf(event)
    isDoubtful ||= code === codes.unknown
    if (charge.isQuota) {
      hasQuota = true
      hasQuotaRoom ||= code !== codes.overLimit
    } else isOver ||= code === codes.overLimit
  }
  if (isOver || (hasQuota && !hasQuotaRoom)) return 'over'
  for (const { isRefused } of items) if (isRefused) return 'over'
  return isDoubtful ? 'store-failed' : 'within'
}

export function responseOf(
  plan: RlsPlan,
  events: readonly Event[],
  outcome: CallOutcome,
  { isShadowMode, headerNames, hasDynamicMetadata }: ResponseSettings,
): RateLimitResponse {
  const statuses = plan.items.map((item) => statusOf(item, events))
  return {
    overallCode: outcome === 'over' && !isShadowMode ? codes.overLimit : codes.ok,
    statuses,
    headers: headerNames === undefined ? noHeaders : headersOf(plan, events, statuses, headerNames),
    dynamicMetadata: hasDynamicMetadata ? metadataOf(plan, statuses) : undefined,
  }
}

/** The status of the most restrictive limit; limits in shadow mode count if there are no others. */
function statusOf({ uses, isRefused }: PlanItem, events: readonly Event[]): DescriptorStatus {
  if (isRefused) return refusedStatus
  let found: DescriptorStatus | undefined
  let isFoundShadow = false
  for (const at of uses) {
    const event = events[at] as Event
    const isShadow = event.charge?.isShadow === true
    if (found !== undefined && isShadow && !isFoundShadow) continue
    const status = limitStatus(event)
    if (found === undefined || (isFoundShadow && !isShadow) || isStricter(status, found)) {
      found = status
      isFoundShadow = isShadow
    }
  }
  return found ?? unknownStatus
}

function isStricter(one: DescriptorStatus, other: DescriptorStatus): boolean {
  if (one.code !== other.code) return rankOf(one) > rankOf(other)
  if (one.limitRemaining !== other.limitRemaining) return one.limitRemaining < other.limitRemaining
  return (one.resetSeconds ?? 0) > (other.resetSeconds ?? 0)
}

/** Over the limit, then unknown, then within. */
function rankOf({ code }: DescriptorStatus): number {
  if (code === codes.overLimit) return 2
  return code === codes.unknown ? 1 : 0
}

function limitStatus(event: Event): DescriptorStatus {
  const { outcome, units, left, decision, subject } = event
  if (decision === undefined) return unlimitedStatus
  const code = codeOf(event)
  let limitRemaining = 0
  if (outcome === 'returned') limitRemaining = capped(decision.remaining)
  else if (outcome === 'admitted') {
    // A call that another descriptor refused was not charged.
    const spent = decision.granted === 0 ? 0 : units
    limitRemaining = capped(Math.max(0, left - spent))
  }
  const { currentLimit, windowMs } = subject
  return { code, currentLimit, limitRemaining, resetSeconds: resetOf(windowMs, decision) }
}

function codeOf({ outcome, charge, decision, subject }: Event): number {
  if ((outcome !== 'denied' && outcome !== 'unavailable') || charge?.isShadow) return codes.ok
  const isShed = decision?.degraded?.mode === 'shed'
  if (isShed || (outcome === 'unavailable' && subject.failsCall)) return codes.unknown
  return codes.overLimit
}

/** Whole seconds to the end of the window, or until units are available again. */
function resetOf(windowMs: number | undefined, decision: Decision): number {
  const { retryAfterMs, resetAfterMs, allowed } = decision
  if (windowMs !== undefined && (resetAfterMs === 0 || decision.degraded !== null)) {
    return Math.ceil((windowMs - (Date.now() % windowMs)) / 1_000)
  }
  const isWaiting = !allowed && Number.isFinite(retryAfterMs)
  return Math.ceil((isWaiting ? retryAfterMs : resetAfterMs) / 1_000)
}

/** The headers of the descriptor nearest to its limit; one that is over takes precedence. */
function headersOf(
  { items }: RlsPlan,
  events: readonly Event[],
  statuses: readonly DescriptorStatus[],
  names: readonly [string, string, string],
): readonly Header[] {
  let nearest: DescriptorStatus | undefined
  for (const [at, status] of statuses.entries()) {
    if (status.currentLimit === undefined) continue
    const isQuota = events[items[at]?.uses[0] ?? -1]?.charge?.isQuota === true
    const isOver = status.code === codes.overLimit && !isQuota
    const isNearer = nearest === undefined || status.limitRemaining < nearest.limitRemaining
    if (isOver || isNearer) nearest = status
  }
  if (nearest?.currentLimit === undefined) return noHeaders
  return [
    { key: names[0], value: String(nearest.currentLimit.requestsPerUnit) },
    { key: names[1], value: String(nearest.limitRemaining) },
    { key: names[2], value: String(nearest.resetSeconds ?? 0) },
  ]
}

function metadataOf({ request, items }: RlsPlan, statuses: readonly DescriptorStatus[]) {
  const descriptors = request.descriptors.map((descriptor): JsonObject => {
    const { entries, limit, hitsAddend } = descriptor
    return {
      entries: entries.map(({ key, value }) => `${key}=${value}`),
      ...(limit === undefined ? undefined : { limit: limitText(limit) }),
      ...(hitsAddend === undefined ? undefined : { hitsAddend }),
    }
  })
  const passed = items.flatMap(({ metadata }, at) =>
    statuses[at]?.code === codes.ok && metadata !== undefined ? [metadata] : [],
  )
  const { domain, hitsAddend } = request
  return {
    domain,
    descriptors: descriptors as readonly JsonValue[],
    ...(hitsAddend === 0 ? undefined : { hitsAddend }),
    ...(passed.length === 0 ? undefined : { metadata: passed.reduce(mergeStructs) }),
  }
}

const unitNames = ['UNKNOWN', 'SECOND', 'MINUTE', 'HOUR', 'DAY', 'MONTH', 'YEAR', 'WEEK']

function limitText({ requestsPerUnit, unit }: { requestsPerUnit: number; unit: number }) {
  return `requests_per_unit:${requestsPerUnit} unit:${unitNames[unit] ?? unit}`
}

function capped(value: number): number {
  return value > UINT32_MAX ? UINT32_MAX : value
}
