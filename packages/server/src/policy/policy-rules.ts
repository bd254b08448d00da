/** Conditions between the fields of a policy that are valid one by one. */

import { TidegateError } from 'tidegate'
import { makeLimit } from '../limits/compile/make-limit.ts'
import { isCertain } from '../limits/key-plan.ts'
import {
  nameNotAllowed,
  notAllowed,
  type PolicyIssue,
  type PolicyPath,
} from './problems/policy-problem.ts'
import { regionIssues } from './regions/region-rules.ts'
import type { KeyPart, LimitChange, LimitSection } from './schema/limits-section.ts'
import type { PolicyDocument } from './schema/policy-schema.ts'

type Rule = (document: PolicyDocument) => Generator<PolicyIssue>

/** Rules, and the sections that they compare. */
const rules: ReadonlyArray<readonly [Rule, ReadonlyArray<keyof PolicyDocument>]> = [
  [tierIssues, ['tiers', 'limits']],
  [routeIssues, ['routes', 'upstreams']],
  [allLimitIssues, ['limits', 'tiers', 'region']],
  [withinIssues, ['limits']],
  [overrideIssues, ['limits', 'overrides']],
  [regionIssues, ['region', 'regions', 'store', 'limits']],
]

/** Skips rules about sections that are `broken`: their problems could be wrong. */
export function* policyIssues(
  document: PolicyDocument,
  broken: ReadonlySet<string> = new Set(),
): Generator<PolicyIssue> {
  for (const [rule, sections] of rules) {
    if (!sections.some((section) => broken.has(section))) yield* rule(document)
  }
}

function* allLimitIssues(document: PolicyDocument): Generator<PolicyIssue> {
  const places = new Map<string, number>()
  for (const [at, limit] of document.limits.entries()) {
    const path = ['limits', at]
    const other = places.get(limit.name)
    if (other !== undefined) {
      const allowed = `a name that no other limit has, and limits[${other}] has this one`
      yield notAllowed([...path, 'name'], limit.name, allowed)
    }
    places.set(limit.name, other ?? at)
    yield* limitIssues(limit, path, document)
  }
}

function* tierIssues({ tiers, limits }: PolicyDocument): Generator<PolicyIssue> {
  for (const [at, { tiers: own = {} }] of limits.entries()) {
    for (const name of Object.keys(own)) {
      if (tiers?.names.includes(name)) continue
      const allowed = tiers === undefined ? 'only with a section tiers' : tiers.names.join(', ')
      yield nameNotAllowed(['limits', at, 'tiers', name], allowed)
    }
  }
  if (tiers === undefined) return
  const { names, lookup } = tiers
  for (const name of Object.keys(tiers.priorities ?? {})) {
    if (names.includes(name)) continue
    yield nameNotAllowed(['tiers', 'priorities', name], names.join(', '))
  }
  for (const [at, name] of names.entries()) {
    if (names.indexOf(name) === at) continue
    yield notAllowed(['tiers', 'names', at], name, 'each name once')
  }
  if (!names.includes(tiers.default)) {
    yield notAllowed(['tiers', 'default'], tiers.default, names.join(', '))
  }
  if (lookup === undefined) return
  const path = ['tiers', 'lookup']
  const ways = [lookup.claim, lookup.file, lookup.url].filter((way) => way !== undefined)
  if (ways.length !== 1) {
    yield notAllowed(path, lookup, 'exactly one of claim, file and url')
  }
  if (lookup.claim === undefined && lookup.by === undefined) {
    yield notAllowed([...path, 'by'], undefined, 'apiKey, user or organisation')
  }
  if (lookup.claim !== undefined && lookup.by !== undefined) {
    yield notAllowed([...path, 'by'], lookup.by, 'only with file and url')
  }
  if (lookup.url === undefined && lookup.timeout !== undefined) {
    yield notAllowed([...path, 'timeout'], lookup.timeout, 'only with url')
  }
}

function* routeIssues({ routes, upstreams }: PolicyDocument): Generator<PolicyIssue> {
  const names = Object.keys(upstreams)
  const allowed = names.length === 0 ? 'the name of one in upstreams' : names.join(', ')
  for (const [at, { upstream }] of routes.entries()) {
    if (!names.includes(upstream)) yield notAllowed(['routes', at, 'upstream'], upstream, allowed)
  }
  if (routes.length === 0 && names.length > 1) {
    yield { path: ['upstreams'], text: 'several upstreams need routes' }
  }
}

function* limitIssues(
  limit: LimitSection,
  path: PolicyPath,
  document: PolicyDocument,
): Generator<PolicyIssue> {
  yield* keyIssues(limit, path, document)
  const { algorithm, match, timeZone, cost } = limit
  if (match?.region !== undefined && document.region === undefined) {
    const allowed = 'only if the policy has a region'
    yield notAllowed([...path, 'match', 'region'], match.region, allowed)
  }
  if (algorithm !== 'concurrency' && limit.per === undefined) {
    yield notAllowed([...path, 'per'], undefined, 'a time such as 250ms, 10s, 5m, 1h or 1d')
  }
  if (algorithm === 'concurrency' && limit.ttl === undefined) {
    yield notAllowed([...path, 'ttl'], undefined, 'a time after which a lost slot is free again')
  }
  if (algorithm === 'concurrency' && cost !== 1) {
    yield notAllowed([...path, 'cost'], cost, 'none with concurrency: a request takes one slot')
  }
  if (algorithm === 'concurrency' && isForEnvoy(limit)) {
    const allowed = 'none with concurrency, because Envoy does not report the end of a request'
    const field = match?.domain === undefined && match?.descriptor === undefined ? 'key' : 'match'
    yield { path: [...path, field], text: `a descriptor is not allowed; allowed: ${allowed}` }
  }
  if (timeZone !== undefined && algorithm !== 'fixedWindow') {
    yield notAllowed([...path, 'timeZone'], timeZone, 'only with fixedWindow')
  }
  yield* numberIssues(limit, undefined, path)
  for (const [tier, change] of Object.entries(limit.tiers ?? {})) {
    yield* numberIssues(limit, change, [...path, 'tiers', tier])
  }
}

function* keyIssues(
  { key, otherwise, match }: LimitSection,
  path: PolicyPath,
  { region, tiers }: PolicyDocument,
): Generator<PolicyIssue> {
  const parts = partsOf(key)
  const isAlwaysThere = parts.every(isCertain)
  const isAddress = parts.every((part) => isCertain(part) || isIp(part))
  if (otherwise === undefined && !isAlwaysThere && !isAddress) {
    const allowed = 'deny, skip or another key, for requests without this one'
    yield notAllowed([...path, 'otherwise'], undefined, allowed)
  }
  if (otherwise !== undefined && isAlwaysThere) {
    const allowed = 'none, because every request has this key'
    yield notAllowed([...path, 'otherwise'], otherwise, allowed)
  }
  const all = [...parts, ...fallbackParts(otherwise)]
  if (all.includes('route') && match?.path === undefined) {
    yield notAllowed([...path, 'key'], 'route', 'the key route only with match.path')
  }
  if (all.includes('region') && region === undefined) {
    yield notAllowed([...path, 'key'], 'region', 'only if the policy has a region')
  }
  if (all.includes('tier') && tiers === undefined) {
    yield notAllowed([...path, 'key'], 'tier', 'only with a section tiers')
  }
}

/** True if only descriptors of Envoy have the facts that the limit names. */
function isForEnvoy({ match, key }: LimitSection): boolean {
  const isMatched = match?.domain !== undefined || match?.descriptor !== undefined
  return isMatched || partsOf(key).some(isDescriptor)
}

function isDescriptor(part: KeyPart): boolean {
  return part === 'domain' || (typeof part === 'object' && 'descriptor' in part)
}

function partsOf(key: LimitSection['key']): readonly KeyPart[] {
  return Array.isArray(key) ? key : [key]
}

function isIp(part: KeyPart): boolean {
  return part === 'ip' || part === 'ip+userAgent' || (typeof part === 'object' && 'ip' in part)
}

function fallbackParts(otherwise: LimitSection['otherwise']): readonly KeyPart[] {
  if (otherwise === undefined || otherwise === 'deny' || otherwise === 'skip') return []
  if (typeof otherwise !== 'object' || Array.isArray(otherwise) || !('key' in otherwise)) {
    return partsOf(otherwise)
  }
  return [...partsOf(otherwise.key), ...fallbackParts(otherwise.otherwise)]
}

/** Numbers of a limit, or of a change to it, that do not fit its algorithm. */
function* numberIssues(
  limit: LimitSection,
  change: LimitChange | undefined,
  path: PolicyPath,
): Generator<PolicyIssue> {
  const { algorithm } = limit
  const { per, burst, ttl } = change ?? limit
  const isSlots = algorithm === 'concurrency'
  let isWrong = false
  for (const [field, value, isFitting, allowed] of [
    ['burst', burst, algorithm === 'tokenBucket', 'only with tokenBucket'],
    ['ttl', ttl, isSlots, 'only with concurrency'],
    ['per', per, !isSlots, 'none with concurrency'],
    ['per', per, typeof per === 'number' || algorithm === 'fixedWindow', `${per} with fixedWindow`],
  ] as const) {
    if (value === undefined || isFitting) continue
    isWrong = true
    yield notAllowed([...path, field], value, allowed)
  }
  const isMissing = isSlots ? limit.ttl === undefined : limit.per === undefined
  if (!isWrong && !isMissing) yield* engineIssues(limit, change, path)
}

/** Numbers that the library refuses, with their place in the file. */
function* engineIssues(
  limit: LimitSection,
  change: LimitChange | undefined,
  path: PolicyPath,
): Generator<PolicyIssue> {
  try {
    makeLimit(limit, change)
  } catch (error) {
    if (!(error instanceof TidegateError) || error.allowed === undefined) throw error
    const field = error.path?.split('.')[1]
    const place = field === undefined || !Object.hasOwn(change ?? limit, field) ? [] : [field]
    yield notAllowed([...path, ...place], error.value, error.allowed)
  }
}

function* withinIssues({ limits }: PolicyDocument): Generator<PolicyIssue> {
  const byName = new Map(limits.map((limit) => [limit.name, limit]))
  for (const [at, { name, within }] of limits.entries()) {
    if (within === undefined) continue
    const path = ['limits', at, 'within']
    const others = [...byName.keys()].filter((other) => other !== name)
    if (!others.includes(within)) {
      yield notAllowed(path, within, others.length === 0 ? 'another limit' : others.join(', '))
      continue
    }
    const seen = new Set([name])
    let outer: string | undefined = within
    while (outer !== undefined && !seen.has(outer)) {
      seen.add(outer)
      outer = byName.get(outer)?.within
    }
    if (outer !== undefined) yield notAllowed(path, within, 'a limit that is not within this one')
    const { key = [], otherwise } = byName.get(within) ?? {}
    if ([...partsOf(key), ...fallbackParts(otherwise)].includes('route')) {
      yield notAllowed(path, within, 'a limit whose key has no route')
    }
  }
}

function* overrideIssues({ limits, overrides }: PolicyDocument): Generator<PolicyIssue> {
  const byName = new Map(limits.map((limit) => [limit.name, limit]))
  const seen = new Set<string>()
  for (const [at, override] of overrides.entries()) {
    const path = ['overrides', at]
    const limit = byName.get(override.limit)
    if (limit === undefined) {
      const allowed = limits.length === 0 ? 'the name of a limit' : [...byName.keys()].join(', ')
      yield notAllowed([...path, 'limit'], override.limit, allowed)
      continue
    }
    const count = partsOf(limit.key).length
    if (override.key.length !== count) {
      const allowed =
        count === 1 ? 'one text' : `a list of ${count} texts, as in the key of the limit`
      yield notAllowed([...path, 'key'], override.key, allowed)
    }
    const label = JSON.stringify([override.limit, override.key])
    if (seen.has(label))
      yield notAllowed([...path, 'key'], override.key, 'each key of a limit once')
    seen.add(label)
    yield* numberIssues(limit, override.set, [...path, 'set'])
  }
}
