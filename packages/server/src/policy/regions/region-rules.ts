/** Conditions between `region`, `regions` and the field `regions` of limits. */

import { makeLimit } from '../../limits/compile/make-limit.ts'
import { notAllowed, type PolicyIssue, type PolicyPath } from '../problems/policy-problem.ts'
import type { LimitSection } from '../schema/limits-section.ts'
import type { PolicyDocument } from '../schema/policy-schema.ts'
import type { RegionMode, RegionsSection } from '../schema/regions/regions-section.ts'
import { sharesOf } from './region-bounds.ts'
import { shareUnits } from './region-parts.ts'

export function* regionIssues(document: PolicyDocument): Generator<PolicyIssue> {
  const { region, regions, store, limits } = document
  if (regions !== undefined) {
    const names = Object.keys(regions.list).join(', ')
    if (region === undefined || !Object.hasOwn(regions.list, region)) {
      yield notAllowed(['region'], region, `this node's region, one of regions.list: ${names}`)
    }
    if (store.mode === 'memory') {
      const allowed = 'with regions: standalone, sentinel or cluster, which all nodes share'
      yield notAllowed(['store', 'mode'], store.mode, allowed)
    }
  }
  for (const [at, limit] of limits.entries()) {
    if (limit.regions === undefined) continue
    const path = ['limits', at, 'regions']
    if (regions === undefined) {
      yield { path, text: 'is not allowed; allowed: only with a section regions' }
      continue
    }
    yield* modeIssues(limit, path, regions)
  }
}

function* modeIssues(
  limit: LimitSection,
  path: PolicyPath,
  regions: RegionsSection,
): Generator<PolicyIssue> {
  const { mode, reserve, onCutOff, blind } = limit.regions ?? {}
  if (mode === undefined) return
  if (mode === 'partition' || mode === 'shared') {
    yield* unused({ reserve, onCutOff }, path, 'only with home and escrow')
    yield* shareIssues(limit, mode, path, regions)
  }
  if (mode !== 'shared') yield* unused({ blind }, path, 'only with shared')
  if (mode === 'partition') return
  if (regions.link === undefined) {
    yield notAllowed([...path, 'mode'], mode, `${mode} only with regions.link; partition without`)
  }
  if (mode === 'shared') yield* sharedIssues(limit, path, regions)
  yield* elsewhereIssues(limit, mode, path)
}

function* unused(
  fields: Readonly<Record<string, unknown>>,
  path: PolicyPath,
  allowed: string,
): Generator<PolicyIssue> {
  for (const [field, value] of Object.entries(fields)) {
    if (value !== undefined) yield notAllowed([...path, field], value, allowed)
  }
}

/** Fields that do not fit counters that other regions know or keep. */
function* elsewhereIssues(
  { algorithm, accuracy, within }: LimitSection,
  mode: RegionMode,
  path: PolicyPath,
): Generator<PolicyIssue> {
  const isUncounted = algorithm === 'slidingLog' || algorithm === 'concurrency'
  if (mode !== 'home' && isUncounted) {
    const reason = mode === 'escrow' ? 'leased' : 'exchanged as counts'
    const allowed = `with ${algorithm}: home, because its units cannot be ${reason}`
    yield notAllowed([...path, 'mode'], mode, allowed)
  }
  if (accuracy === 'synced') {
    const allowed = mode === 'shared' ? 'with shared: exact' : `with ${mode}: exact or leased`
    yield notAllowed([...path.slice(0, 2), 'accuracy'], accuracy, allowed)
  }
  if (within !== undefined) {
    const where = mode === 'shared' ? 'are known by a digest' : 'lie in their home region'
    const allowed = `none with ${mode}, whose counters ${where}`
    yield notAllowed([...path.slice(0, 2), 'within'], within, allowed)
  }
}

function* sharedIssues(
  limit: LimitSection,
  path: PolicyPath,
  { list }: RegionsSection,
): Generator<PolicyIssue> {
  const { blind = 1 } = limit.regions ?? {}
  const count = Object.keys(list).length
  if (blind > count) {
    yield notAllowed([...path, 'blind'], blind, `from 1 to ${count}, the number of regions`)
  }
  if (isCountable(limit, sharesOf(list))) return
  const allowed = 'home, because the parts of its units are too many to be counted'
  yield notAllowed([...path, 'mode'], 'shared', allowed)
}

/** True if a limit of as many parts of units is valid. */
function isCountable(limit: LimitSection, parts: number): boolean {
  const { burst } = limit
  try {
    const more = burst === undefined ? undefined : { burst: burst * parts }
    makeLimit({ ...limit, limit: limit.limit * parts, ...more })
    return true
  } catch {
    return false
  }
}

/** Every region needs at least one unit, or it would refuse everything. */
function* shareIssues(
  { limit, burst = limit }: LimitSection,
  mode: RegionMode,
  path: PolicyPath,
  { list }: RegionsSection,
): Generator<PolicyIssue> {
  const shares = sharesOf(list)
  if (limit === 0) return
  for (const [name, { share }] of Object.entries(list)) {
    if (shareUnits(Math.min(limit, burst), share, shares) >= 1) continue
    const allowed = `home, because the share of ${name} is less than one of ${limit} units`
    yield notAllowed([...path, 'mode'], mode, allowed)
    return
  }
}
