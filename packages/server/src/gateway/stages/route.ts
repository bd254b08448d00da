/** Finds the upstream of a request: that of the first route that matches. */

import { canonicalHost, type HostMatcher, hostMatcher } from '../../limits/match/host-pattern.ts'
import { PathPatterns } from '../../limits/match/path-pattern.ts'
import { withHead } from '../../limits/match/request-match.ts'
import type { HeaderChanges, RouteSection } from '../../policy/schema/routes-section.ts'
import { createContextKey } from '../context.ts'
import type { GatewayRequest } from '../message.ts'
import type { Stage } from '../pipeline.ts'
import { refusal } from '../refusal.ts'
import type { Upstream } from '../upstreams/upstream.ts'
import { preflightMethod } from './preflights.ts'

export interface Route {
  /** Host and path of its `match`, for metrics. */
  readonly name: string
  readonly upstream: Upstream
  readonly stripPrefix: string
  readonly addPrefix: string
  readonly requestHeaders: HeaderChanges | undefined
  readonly responseHeaders: HeaderChanges | undefined
}

/** The route that was found; undefined before this stage. */
export const foundRoute = createContextKey<Route | undefined>(undefined)

/** Returns the index of the first route that matches a request, or -1. */
export type FindRoute = (request: Routed) => number

/** The fields of a request that decide on its route. */
type Routed = Pick<GatewayRequest, 'host' | 'method' | 'path'> &
  Partial<Pick<GatewayRequest, 'context'>>

interface Rule {
  readonly methods: ReadonlySet<string> | undefined
  readonly isHost: HostMatcher | undefined
}

const EVERYTHING = '/**'

export function route(
  sections: readonly RouteSection[],
  upstreams: ReadonlyMap<string, Upstream>,
): Stage {
  const all = sections.length === 0 ? onlyUpstream(upstreams) : sections
  const routes = all.map((section) => compileRoute(section, upstreams))
  const find = routeFinder(all)
  return (request, next) => {
    const found = routes[find(request)]
    if (found === undefined) return refusal(404, 'No route leads to an upstream.')
    request.context.set(foundRoute, found)
    return next(request)
  }
}

/** For the stages behind this one. */
export function routeOf({ context }: GatewayRequest): Route {
  const found = context.get(foundRoute)
  if (found === undefined) throw new Error('the request has no route yet')
  return found
}

export function routeFinder(sections: readonly RouteSection[]): FindRoute {
  const patterns = new PathPatterns(sections.map(({ match }) => match.path ?? EVERYTHING))
  const rules = sections.map(({ match }) => ({
    methods: match.methods === undefined ? undefined : new Set(withHead(match.methods)),
    isHost: match.host === undefined ? undefined : hostMatcher(match.host),
  }))
  if (isForAll(sections[0])) return () => 0
  const areHostsRead = rules.some(({ isHost }) => isHost !== undefined)
  return (request) => {
    patterns.read(request.path)
    const host = areHostsRead ? canonicalHost(request.host) : ''
    return rules.findIndex((rule, index) => patterns.matches(index) && fits(rule, request, host))
  }
}

/** True for a route that every request takes, so that no path has to be read. */
function isForAll(section: RouteSection | undefined): boolean {
  if (section === undefined) return false
  const { path = EVERYTHING, methods, host } = section.match
  return path === EVERYTHING && methods === undefined && host === undefined
}

function onlyUpstream(upstreams: ReadonlyMap<string, Upstream>): RouteSection[] {
  const [name] = upstreams.keys()
  return name !== undefined && upstreams.size === 1 ? [{ match: {}, upstream: name }] : []
}

function compileRoute(section: RouteSection, upstreams: ReadonlyMap<string, Upstream>): Route {
  const { rewrite, requestHeaders, responseHeaders, match } = section
  const upstream = upstreams.get(section.upstream)
  if (upstream === undefined) throw new Error(`there is no upstream ${section.upstream}`)
  return {
    name: `${match.host ?? ''}${match.path ?? EVERYTHING}`,
    upstream,
    stripPrefix: (rewrite?.stripPrefix ?? '').replace(/\/+$/, ''),
    addPrefix: (rewrite?.addPrefix ?? '').replace(/\/+$/, ''),
    requestHeaders,
    responseHeaders,
  }
}

function fits({ methods, isHost }: Rule, request: Routed, host: string): boolean {
  if (methods !== undefined && !isAmong(methods, request)) return false
  return isHost === undefined || isHost(host)
}

/** A pre-flight takes the route of the request that it asks for. */
function isAmong(methods: ReadonlySet<string>, { method, context }: Routed): boolean {
  if (methods.has(method)) return true
  const requested = context?.get(preflightMethod)
  return requested !== undefined && methods.has(requested)
}
