/** One client as limits see it: which apply, what is used, and its last refusals. */

import type { Limit, Store } from 'tidegate'
import { parseIp } from 'tidegate/http'
import type { ClientLimit, ClientView, RefusalView } from '../../admin/console/console-types.ts'
import type { ClientAsked } from '../../admin/console/console-view.ts'
import { ApiError } from '../../http-api/api-error.ts'
import { lookUp } from '../../limits/counters.ts'
import { durationText } from '../../limits/duration-text.ts'
import type { Enforcer } from '../../limits/enforcer.ts'
import type { ExplainedLimit } from '../../limits/explain.ts'
import { readKey } from '../../limits/key-plan.ts'
import type { RequestFacts } from '../../limits/request-facts.ts'
import type { Digest } from '../../observability/digests.ts'
import type { RecentRefusals, RefusedKey } from '../../observability/traffic/recent-refusals.ts'

/** A policy may have a thousand limits; those that apply come first. */
const LIMITS_MAX = 200

export interface ClientParts {
  readonly enforcer: Enforcer
  readonly store: Store
  readonly refusals: RecentRefusals
  readonly digest: Digest
}

/** Throws ApiError for an address that is not one. */
export async function clientView(asked: ClientAsked, parts: ClientParts): Promise<ClientView> {
  const facts = factsOf(asked)
  const explained = await parts.enforcer.explain(facts)
  const { switch: state, block, ip, tier = '' } = explained
  const limits = [...explained.limits].sort(byApplies).slice(0, LIMITS_MAX)
  const views = limits.map((limit) => limitView(limit, facts, tier, parts))
  return {
    kind: asked.kind,
    value: asked.kind === 'ip' ? (facts.ip ?? asked.value) : asked.value,
    tier: tier === '' ? null : tier,
    list: ip ?? null,
    switch: state.limits,
    block:
      block === undefined
        ? null
        : { kind: block.kind, answer: block.answer, untilMs: block.until, id: block.id },
    limits: await Promise.all(views),
  }
}

function byApplies(one: ExplainedLimit, other: ExplainedLimit): number {
  return Number(other.applies) - Number(one.applies)
}

function factsOf({ kind, value, method, path }: ClientAsked): RequestFacts {
  const address = kind === 'ip' ? parseIp(value) : undefined
  if (kind === 'ip' && address === undefined) {
    throw new ApiError(
      422,
      `value: ${JSON.stringify(value)} is not allowed; allowed: an IP address`,
    )
  }
  const identity = kind === 'ip' ? {} : { [kind]: value }
  return { method, path, ip: address?.text, identity, header: () => undefined }
}

async function limitView(
  explained: ExplainedLimit,
  facts: RequestFacts,
  tier: string,
  { enforcer, store, refusals, digest }: ClientParts,
): Promise<ClientLimit> {
  const { name, mode } = explained
  if (!explained.applies) return { name, mode, reason: explained.reason, state: null }
  const { key, keyKind, keyParts, within = null, limit, source, override, isFallback } = explained
  const { byName, rootOf } = enforcer.rules().limits
  const compiled = byName.get(name)
  if (compiled === undefined) return { name, mode, reason: 'it has just been removed', state: null }
  const root = rootOf.get(compiled)
  const outerKey = root && readKey(root.key, facts, tier, '')
  const { hold: _, ...charge } = compiled.compiled.chargeOf(key, 0, limit, outerKey)
  const counter = await lookUp({ limit: name, charge: { ...charge, cost: 0 }, store })
  const refused = refusals.find(name, charge.key)
  return {
    name,
    mode,
    reason: null,
    state: {
      ...{ keyKind, keyParts, within, source, isFallback },
      keyHash: digest(charge.key),
      override: override ?? null,
      numbers: numbersText(limit),
      limit: counter.used + counter.left,
      used: counter.used,
      left: counter.left,
      held: counter.held,
      leased: counter.leased,
      resetAfterMs: counter.resetAfterMs,
      shard: counter.shard,
      isCertain: counter.isCertain,
      refusals: refused === undefined ? null : refusalView(refused, keyParts.join(', ')),
    },
  }
}

export function refusalView(found: RefusedKey, key: string): RefusalView {
  const { limit, count, sinceMs, lastMs, isShadow, last } = found
  const shown = last.map((one) => ({
    ...one,
    retryAfterMs: Number.isFinite(one.retryAfterMs) ? one.retryAfterMs : null,
  }))
  return { limit, key, count, sinceMs, lastMs, isShadow, last: shown }
}

/** Such as `10 per 1s, burst 20`. */
function numbersText(limit: Limit): string {
  if (limit.algorithm === 'concurrency') return `${limit.limit} at once`
  if (limit.algorithm === 'fixedWindow') {
    const { per } = limit
    return `${limit.limit} per ${typeof per === 'number' ? durationText(per) : per.unit}`
  }
  const numbers = `${limit.limit} per ${durationText(limit.perMs)}`
  return limit.algorithm === 'tokenBucket' && limit.burst !== limit.limit
    ? `${numbers}, burst ${limit.burst}`
    : numbers
}
