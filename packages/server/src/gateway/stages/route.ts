/** Finds the upstream of a request. The first route that matches decides. */

import type { HeaderChanges, RouteSection } from '../../policy/gateway-section.ts'
import { PathPatterns } from '../../policy/path-pattern.ts'
import { withHead } from '../../policy/request-match.ts'
import type { GatewayRequest, Stage } from '../message.ts'
import { refusal } from '../refusal.ts'
import type { Upstream } from '../upstreams/upstream.ts'

export interface Route {
  readonly upstream: Upstream
  readonly stripPrefix: string
  readonly addPrefix: string
  readonly requestHeaders: HeaderChanges | undefined
  readonly responseHeaders: HeaderChanges | undefined
}

/** Returns the place of the first route that matches a request, or -1. */
export type FindRoute = (request: GatewayRequest) => number

interface Rule {
  readonly methods: ReadonlySet<string> | undefined
  readonly host: string | undefined
}

const EVERYTHING = '/**'

export function route(
  sections: readonly RouteSection[],
  upstreams: ReadonlyMap<string, Upstream>,
): Stage {
  const all = sections.length === 0 ? onlyUpstream(upstreams) : sections
  const routes = all.map((section) => routeOf(section, upstreams))
  const find = routeFinder(all)
  return (request, next) => {
    const found = routes[find(request)]
    if (found === undefined) return refusal(404, 'No route leads to an upstream.')
    request.route = found
    return next(request)
  }
}

export function routeFinder(sections: readonly RouteSection[]): FindRoute {
  const patterns = new PathPatterns(sections.map(({ match }) => match.path ?? EVERYTHING))
  const rules = sections.map(({ match }) => ({
    methods: match.methods === undefined ? undefined : new Set(withHead(match.methods)),
    host: match.host,
  }))
  return (request) => {
    patterns.read(request.path)
    return rules.findIndex((rule, index) => patterns.matches(index) && fits(rule, request))
  }
}

function onlyUpstream(upstreams: ReadonlyMap<string, Upstream>): RouteSection[] {
  const [name] = upstreams.keys()
  return name !== undefined && upstreams.size === 1 ? [{ match: {}, upstream: name }] : []
}

function routeOf(section: RouteSection, upstreams: ReadonlyMap<string, Upstream>): Route {
  const { rewrite, requestHeaders, responseHeaders } = section
  const upstream = upstreams.get(section.upstream)
  if (upstream === undefined) throw new Error(`there is no upstream ${section.upstream}`)
  return {
    upstream,
    stripPrefix: (rewrite?.stripPrefix ?? '').replace(/\/+$/, ''),
    addPrefix: (rewrite?.addPrefix ?? '').replace(/\/+$/, ''),
    requestHeaders,
    responseHeaders,
  }
}

function fits({ methods, host }: Rule, request: GatewayRequest): boolean {
  if (methods !== undefined && !methods.has(request.method)) return false
  return host === undefined || host === request.host.toLowerCase().replace(/:\d+$/, '')
}
