/**
 * Lets pages of other origins read responses, if the policy has rules for them. It wraps all stages
 * that respond, so that a page can also read refusals and how long to wait. Pre-flights get their
 * response here. CORS fields of an upstream are replaced: browsers reject two different values.
 * https://fetch.spec.whatwg.org/#http-cors-protocol
 */

import { ANY_ORIGIN, originMatcher } from '../../limits/match/origin-pattern.ts'
import type { CorsSection } from '../../policy/schema/cors-section.ts'
import type { RoutesSection } from '../../policy/schema/routes-section.ts'
import type { HeaderList } from '../header-list.ts'
import { type GatewayRequest, type GatewayResponse, responseOf } from '../message.ts'
import { type Stage, whenDone } from '../pipeline.ts'
import { preflightMethod } from './preflights.ts'
import { routeFinder } from './route.ts'

/** Fields that a page needs to know how long to wait. */
const exposedAlways = [
  ...['retry-after', 'ratelimit', 'ratelimit-policy', 'x-ratelimit-limit'],
  ...['x-ratelimit-remaining', 'x-ratelimit-reset', 'x-ratelimit-retry-after'],
  ...['x-ratelimit-status', 'x-ratelimit-warning'],
]

const CORS_PREFIX = 'access-control-'

/** About 100 KB. A policy has few origins, but a pattern can match any number of them. */
const ORIGINS_MAX = 512

/** Undefined if the policy has no rules. */
export function cors(section: CorsSection | undefined, routes: RoutesSection): Stage | undefined {
  const rulesOf = rulesFinder(section, routes)
  if (rulesOf === undefined) return undefined
  return (request, next) => {
    const rules = rulesOf(request)
    if (rules === undefined) return next(request)
    const isPreflight = request.context.get(preflightMethod) !== undefined
    if (isPreflight && request.problem === undefined) return rules.preflight(request)
    const origin = request.header('origin')
    return whenDone(next(request), (response) => rules.complete(response, origin))
  }
}

/** Undefined if there are no rules at all. */
function rulesFinder(
  section: CorsSection | undefined,
  routes: RoutesSection,
): ((request: GatewayRequest) => CorsRules | undefined) | undefined {
  const forAll = section && new CorsRules(section)
  if (routes.every((route) => route.cors === undefined)) return forAll && (() => forAll)
  const byRoute = routes.map(({ cors: own }) => {
    if (own === undefined) return forAll
    return own === false ? undefined : new CorsRules(own)
  })
  const find = routeFinder(routes)
  return (request) => {
    const at = find(request)
    return at === -1 ? forAll : byRoute[at]
  }
}

class CorsRules {
  readonly #section: CorsSection
  readonly #isAllowed: (origin: string) => boolean
  /** True if responses are the same for all origins. */
  readonly #isForAny: boolean
  readonly #exposed: string
  readonly #methods: string
  readonly #byOrigin = new Map<string, HeaderList>()
  /** The last copy of each shared response. */
  readonly #copies = new WeakMap<GatewayResponse, { fields: HeaderList; copy: GatewayResponse }>()

  constructor(section: CorsSection) {
    this.#section = section
    this.#isAllowed = originMatcher(section.origins)
    this.#isForAny = section.origins.includes(ANY_ORIGIN)
    this.#exposed = [...new Set([...exposedAlways, ...section.exposeHeaders])].join(', ')
    this.#methods = section.methods.join(', ')
  }

  /** Lists everything allowed: the browser compares, and its console names what is missing. */
  preflight(request: GatewayRequest): GatewayResponse {
    const headers: HeaderList = [
      'vary',
      'Origin, Access-Control-Request-Method, Access-Control-Request-Headers',
    ]
    const origin = request.header('origin') ?? ''
    if (!this.#isAllowed(origin)) return responseOf(204, headers, undefined)
    const { maxAge } = this.#section
    headers.push(...this.#allowing(origin), 'access-control-allow-methods', this.#methods)
    const allowed = this.#allowedHeaders(request.header('access-control-request-headers'))
    if (allowed !== '') headers.push('access-control-allow-headers', allowed)
    headers.push('access-control-max-age', String(Math.floor(maxAge / 1_000)))
    return responseOf(204, headers, undefined)
  }

  complete(response: GatewayResponse, origin: string | undefined): GatewayResponse {
    // A WebSocket is not subject to CORS.
    if (response.tunnel !== undefined) return response
    const fields = this.#fieldsFor(origin)
    if (!response.isShared) {
      this.#add(response.headers, fields)
      return response
    }
    const known = this.#copies.get(response)
    if (known?.fields === fields) return known.copy
    const copy = { ...response, headers: [...response.headers], wireText: undefined }
    this.#add(copy.headers, fields)
    this.#copies.set(response, { fields, copy })
    return copy
  }

  #add(headers: HeaderList, fields: HeaderList): void {
    for (let at = headers.length - 2; at >= 0; at -= 2) {
      if (headers[at]?.startsWith(CORS_PREFIX)) headers.splice(at, 2)
    }
    if (!this.#isForAny) addVaryOrigin(headers)
    headers.push(...fields)
  }

  /** One list for each origin, and an empty one for those that are not allowed. */
  #fieldsFor(origin: string | undefined): HeaderList {
    const key = this.#isForAny ? ANY_ORIGIN : origin
    if (key === undefined) return noFields
    const known = this.#byOrigin.get(key)
    if (known !== undefined) return known
    if (!this.#isAllowed(key)) return noFields
    const fields = [...this.#allowing(key), 'access-control-expose-headers', this.#exposed]
    if (this.#byOrigin.size >= ORIGINS_MAX) this.#byOrigin.clear()
    this.#byOrigin.set(key, fields)
    return fields
  }

  #allowing(origin: string): HeaderList {
    const allowed = this.#isForAny ? ANY_ORIGIN : origin
    const fields = ['access-control-allow-origin', allowed]
    return this.#section.credentials
      ? [...fields, 'access-control-allow-credentials', 'true']
      : fields
  }

  /** Repeats the requested names if all are allowed: `*` does not cover `Authorization`. */
  #allowedHeaders(asked: string | undefined): string {
    const { headers } = this.#section
    if (!headers.includes('*')) return headers.join(', ')
    return asked !== undefined && NAMES.test(asked) ? asked : ''
  }
}

const noFields: HeaderList = []

const NAMES = /^[\w!#$%&'*+.^`|~, \t-]+$/

/** Keeps caches from serving the response for one origin to another. */
function addVaryOrigin(headers: HeaderList): void {
  let varyAt = -1
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at] !== 'vary') continue
    if (/(^|,)\s*(\*|origin)\s*(,|$)/i.test(headers[at + 1] as string)) return
    varyAt = at
  }
  if (varyAt === -1) headers.push('vary', 'Origin')
  else headers[varyAt + 1] += ', Origin'
}
