/** From decisions to an answer: statuses in the order of the request, and what they add up to. */

import {
  codes,
  type DescriptorStatus,
  type Header,
  type RateLimitResponse,
} from '../wire/rate-limit-messages.ts'
import { type JsonObject, type JsonValue, mergeStructs } from '../wire/struct.ts'
import type { Judged } from './judge.ts'
import type { Plan, PlanCharge, PlanItem } from './plan.ts'
import type { Stats } from './stats.ts'

export interface AnswerSettings {
  readonly nearLimitRatio: number
  /** Every call goes on, and the statuses tell what would have been. */
  readonly isShadowMode: boolean
  /** The names of limit, remaining and reset; undefined where there are no headers. */
  readonly headerNames: readonly [limit: string, remaining: string, reset: string] | undefined
  readonly hasDynamicMetadata: boolean
}

/** The answer, or that there is none because the store gave none. */
export type Answer = RateLimitResponse | 'store-failed'

const UINT32_MAX = 0xffff_ffff

const unlimitedStatus: DescriptorStatus = {
  code: codes.ok,
  currentLimit: undefined,
  limitRemaining: UINT32_MAX,
  resetSeconds: undefined,
}

const unknownStatus: DescriptorStatus = { ...unlimitedStatus, limitRemaining: 0 }

const noHeaders: readonly Header[] = []

export function answer(
  plan: Plan,
  decisions: readonly Judged[],
  settings: AnswerSettings,
  stats: Stats,
): Answer {
  const { items, charges } = plan
  const left = decisions.map((one) => (one.allowed ? one.remaining + one.granted : one.remaining))
  const statuses = items.map((item) => statusOf(item, charges, decisions, left, settings))
  let isOver = false
  let isDoubtful = false
  let hasQuota = false
  let hasQuotaRoom = false
  for (const [at, status] of statuses.entries()) {
    const charge = chargeOf(items[at], charges)
    if (charge === undefined || charge.isShadow || charge.isNegative) continue
    const isDoubt = status.code === codes.unknown
    isDoubtful ||= isDoubt
    if (charge.isQuota) {
      hasQuota = true
      hasQuotaRoom ||= status.code !== codes.overLimit
    } else isOver ||= status.code === codes.overLimit
  }
  isOver ||= hasQuota && !hasQuotaRoom
  if (isDoubtful && !isOver && !settings.isShadowMode) return 'store-failed'
  if (isOver && settings.isShadowMode) stats.globalShadowMode++
  const { headerNames, hasDynamicMetadata } = settings
  return {
    overallCode: isOver && !settings.isShadowMode ? codes.overLimit : codes.ok,
    statuses,
    headers: headerNames === undefined ? noHeaders : headersOf(plan, statuses, headerNames),
    dynamicMetadata: hasDynamicMetadata ? metadataOf(plan, statuses) : undefined,
  }
}

function chargeOf(item: PlanItem | undefined, charges: readonly PlanCharge[]) {
  return item?.chargeAt === undefined ? undefined : charges[item.chargeAt]
}

/** `left` is what each counter still has for the descriptors that come after. */
function statusOf(
  item: PlanItem,
  charges: readonly PlanCharge[],
  decisions: readonly Judged[],
  left: number[],
  settings: AnswerSettings,
): DescriptorStatus {
  const { rule, currentLimit, chargeAt, hits } = item
  if (rule === undefined) return unknownStatus
  if (chargeAt === undefined) {
    if (item.stats !== undefined) item.stats.unlimited += hits
    return unlimitedStatus
  }
  const charge = charges[chargeAt] as PlanCharge
  const decision = decisions[chargeAt] as Judged
  const resetSeconds = resetOf(charge, decision)
  const base = { currentLimit, resetSeconds }
  if (charge.isNegative) {
    if (item.stats !== undefined) item.stats.totalNegativeHits += hits
    return { ...base, code: codes.ok, limitRemaining: capped(decision.remaining) }
  }
  const isShed = decision.degraded?.mode === 'shed'
  const isUnsure = isShed || (decision.degraded?.mode === 'closed' && !decision.allowed)
  const before = left[chargeAt] ?? 0
  const isOver = !decision.allowed && (isUnsure || hits > before)
  if (!isOver) left[chargeAt] = before - hits
  count(item, decision, isOver && !isUnsure, before, settings.nearLimitRatio)
  if (isOver && rule.isShadow) {
    if (item.stats !== undefined) item.stats.shadowMode += hits
    return { ...base, code: codes.ok, limitRemaining: 0 }
  }
  if (isShed || (isUnsure && charge.counted.onStoreError === 'error')) {
    return { ...base, code: codes.unknown, limitRemaining: 0 }
  }
  if (isOver) return { ...base, code: codes.overLimit, limitRemaining: 0 }
  // Of a call that another descriptor refused, nothing was charged.
  const spent = decision.granted === 0 ? 0 : hits
  return { ...base, code: codes.ok, limitRemaining: capped(Math.max(0, before - spent)) }
}

/** Whole seconds to the end of the window, or until there is something again. */
function resetOf({ counted }: PlanCharge, decision: Judged): number {
  const { retryAfterMs, resetAfterMs, allowed } = decision
  const windowMs = counted.windowMs
  if (windowMs !== undefined && (resetAfterMs === 0 || decision.degraded !== null)) {
    return Math.ceil((windowMs - (Date.now() % windowMs)) / 1_000)
  }
  const isWaiting = !allowed && Number.isFinite(retryAfterMs)
  return Math.ceil((isWaiting ? retryAfterMs : resetAfterMs) / 1_000)
}

/** As the reference counts: hits within the limit, near it, and over it. */
function count(
  { stats, hits, rule }: PlanItem,
  { limit, isRemembered }: Judged,
  isOver: boolean,
  before: number,
  nearLimitRatio: number,
): void {
  if (stats === undefined || rule === undefined) return
  stats.totalHits += hits
  const used = Math.max(0, limit - before)
  const near = Math.floor(limit * nearLimitRatio)
  if (isOver) {
    const isAtLimit = used >= limit
    if (isRemembered) stats.overLimitWithLocalCache += hits
    stats.overLimit += isAtLimit ? hits : used + hits - limit
    if (!isAtLimit) stats.nearLimit += limit - Math.max(near, used)
    return
  }
  stats.withinLimit += hits
  if (used + hits > near) stats.nearLimit += used >= near ? hits : used + hits - near
}

/** Of the descriptor nearest to its limit; one that is over goes before all others. */
function headersOf(
  { items, charges }: Plan,
  statuses: readonly DescriptorStatus[],
  names: readonly [string, string, string],
): readonly Header[] {
  let nearest: DescriptorStatus | undefined
  for (const [at, status] of statuses.entries()) {
    if (status.currentLimit === undefined) continue
    const isOver = status.code === codes.overLimit && !chargeOf(items[at], charges)?.isQuota
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

function metadataOf({ request, items }: Plan, statuses: readonly DescriptorStatus[]): JsonObject {
  const descriptors = request.descriptors.map((descriptor): JsonObject => {
    const { entries, limit, hitsAddend } = descriptor
    return {
      entries: entries.map(({ key, value }) => `${key}=${value}`),
      ...(limit === undefined ? undefined : { limit: overrideText(limit) }),
      ...(hitsAddend === undefined ? undefined : { hitsAddend }),
    }
  })
  const passed = items.flatMap(({ rule }, at) => {
    const isPassed = statuses[at]?.code === codes.ok && rule?.metadata !== undefined
    return isPassed ? [rule.metadata as JsonObject] : []
  })
  const { domain, hitsAddend } = request
  return {
    domain,
    descriptors: descriptors as readonly JsonValue[],
    ...(hitsAddend === 0 ? undefined : { hitsAddend }),
    ...(passed.length === 0 ? undefined : { metadata: passed.reduce(mergeStructs) }),
  }
}

const overrideUnits = ['UNKNOWN', 'SECOND', 'MINUTE', 'HOUR', 'DAY', 'MONTH', 'YEAR', 'WEEK']

function overrideText({ requestsPerUnit, unit }: { requestsPerUnit: number; unit: number }) {
  return `requests_per_unit:${requestsPerUnit} unit:${overrideUnits[unit] ?? unit}`
}

function capped(value: number): number {
  return value > UINT32_MAX ? UINT32_MAX : value
}
