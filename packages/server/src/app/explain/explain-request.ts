/**
 * The outcome of a request in the gateway, by the order of its stages, with unused counters. Tokens
 * are read and not verified, so an invalid one is not noticed here.
 */

import { routeFinder } from '../../gateway/stages/route.ts'
import type { Enforcer } from '../../limits/enforcer.ts'
import type { ExplainedBlock, Explanation } from '../../limits/explain.ts'
import type { RequestFacts } from '../../limits/request-facts.ts'
import type { PolicyDocument } from '../../policy/schema/policy-schema.ts'

export interface RequestVerdict {
  /** `answered`: the gateway responds itself, as for its health path. */
  readonly outcome: 'admitted' | 'refused' | 'answered'
  /** The status of a refusal. */
  readonly status?: number
  /** The name of the limit that refuses. */
  readonly by?: string
  readonly reason: string
}

export interface RequestRoute {
  /** The index in `routes`; undefined if there are none and the only upstream gets all. */
  readonly index: number | undefined
  readonly upstream: string
}

export interface ExplainedRequest extends Explanation {
  readonly verdict: RequestVerdict
  /** Undefined if no route matches. */
  readonly route: RequestRoute | undefined
}

type Facts = RequestFacts & { readonly host: string }

export async function explainRequest(
  facts: Facts,
  document: PolicyDocument,
  enforcer: Enforcer,
): Promise<ExplainedRequest> {
  const explanation = await enforcer.explain(facts)
  const route = routeOf(facts, document)
  const verdict =
    beforeLimits(facts, document, explanation) ??
    (await byLimits(facts, explanation, enforcer)) ??
    (route === undefined ? refused(404, 'no route leads to an upstream') : admitted(explanation))
  return { verdict, route, ...explanation }
}

function beforeLimits(
  { path, identity }: Facts,
  { gateway, auth }: PolicyDocument,
  { ip, block }: Explanation,
): RequestVerdict | undefined {
  if (path === gateway.healthPath || path === gateway.readyPath) {
    return { outcome: 'answered', reason: 'by the gateway itself, without limits' }
  }
  if (block?.kind === 'ip' || block?.kind === 'cidr') return blocked(block)
  if (ip === 'deny') return refused(403, 'the address is on the deny list')
  if (auth.apiKeys?.required && identity.apiKey === undefined) {
    return refused(401, 'auth.apiKeys.required: there is no API key')
  }
  const hasToken = identity.claims !== undefined || identity.user !== undefined
  if (auth.jwt?.required && !hasToken) {
    return refused(401, 'auth.jwt.required: there is no bearer token')
  }
  return block === undefined ? undefined : blocked(block)
}

function blocked({ answer, kind, id, instead }: ExplainedBlock): RequestVerdict {
  return refused(answer, `a live block by ${kind}, ${id}, wins over ${instead}`)
}

async function byLimits(
  facts: Facts,
  { ip, limits }: Explanation,
  enforcer: Enforcer,
): Promise<RequestVerdict | undefined> {
  if (ip === 'allow') return undefined
  const { outcome, refusedBy: by = '' } = await enforcer.evaluate(facts, { peek: true })
  if (outcome === 'admitted') return undefined
  if (outcome === 'missing-key') {
    const found = limits.find(({ name }) => name === by)
    const reason = found?.applies === false ? found.reason : 'there is no key'
    return { ...refused(401, reason), by }
  }
  const found = limits.find(({ name }) => name === by)
  const isTooLarge = found?.applies === true && found.cost > found.limit.limit
  const reason = isTooLarge
    ? 'the cost is above the capacity of the limit'
    : 'not enough units are left at this time'
  return { ...refused(outcome === 'denied' ? 429 : 503, reason), by }
}

function admitted({
  isEnabled,
  ip,
  limits,
  switch: { limits: state },
}: Explanation): RequestVerdict {
  const isLimited = limits.some(({ applies, mode }) => applies && mode === 'enforce')
  if (!isEnabled) return { outcome: 'admitted', reason: 'the policy is turned off' }
  if (ip === 'allow') return { outcome: 'admitted', reason: 'the address is on the allow list' }
  if (state !== 'on') return { outcome: 'admitted', reason: `the switch is ${state}` }
  const reason = isLimited ? 'while the limits below have units left' : 'no limit is enforced'
  return { outcome: 'admitted', reason }
}

function refused(status: number, reason: string) {
  return { outcome: 'refused', status, reason } as const
}

/** Finds the route as stages/route.ts does. */
function routeOf(facts: Facts, { routes, upstreams }: PolicyDocument): RequestRoute | undefined {
  const [only, ...others] = Object.keys(upstreams)
  if (routes.length === 0) {
    const isOnly = only !== undefined && others.length === 0
    return isOnly ? { index: undefined, upstream: only } : undefined
  }
  const index = routeFinder(routes)(facts)
  const found = routes[index]
  return found === undefined ? undefined : { index, upstream: found.upstream }
}
