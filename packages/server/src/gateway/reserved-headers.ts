/**
 * Header fields that the gateway reads or sets. Some servers read `X_Tenant`, `X.Tenant` and
 * `X~Tenant` as `X-Tenant`. Such aliases are dropped: the upstream would read a value that no limit
 * has seen.
 */

import { KEY_FIELD } from 'tidegate/idempotency'
import type { AuthSection } from '../policy/schema/auth-section.ts'
import type { IdempotencySection } from '../policy/schema/idempotency/idempotency-section.ts'
import type {
  FallbackSection,
  LimitSection,
  MatchSection,
} from '../policy/schema/limits-section.ts'
import type { GatewaySection } from '../policy/schema/listener-section.ts'
import type { RoutesSection } from '../policy/schema/routes-section.ts'

export interface NamingSections {
  readonly auth: AuthSection
  readonly routes: RoutesSection
  readonly limits?: readonly LimitSection[]
  readonly idempotency?: IdempotencySection | undefined
  readonly gateway?: Pick<GatewaySection, 'requestId'>
}

export class ReservedHeaders {
  readonly #names: ReadonlySet<string>
  readonly #plain: ReadonlySet<string>
  readonly #keys: ReadonlySet<string>

  /** `keys` are the names whose values are keys of limits or of clients. */
  constructor(names: readonly string[], keys: readonly string[] = []) {
    this.#names = new Set(names)
    this.#keys = new Set(keys)
    this.#plain = new Set(names.map(plainName))
  }

  /** True if a spelling of the name is reserved. */
  has(plain: string): boolean {
    return this.#plain.has(plain)
  }

  /** True if its value is a key: a request has at most one. */
  isKey(name: string): boolean {
    return this.#keys.has(name)
  }

  /** True if it is another spelling of a reserved name. */
  isAlias(name: string, plain: string): boolean {
    return this.#plain.has(plain) && !this.#names.has(name)
  }
}

/** CGI replaces each of these by an underscore: `X!Tenant` becomes HTTP_X_TENANT. */
const otherThanPlain = /[^0-9A-Za-z-]/

export function plainName(name: string): string {
  return otherThanPlain.test(name) ? name.replaceAll(/[^0-9A-Za-z-]/g, '-') : name
}

export function reservedHeaders(sections: NamingSections): ReservedHeaders {
  const { auth, routes, limits = [], idempotency, gateway } = sections
  const changed = routes.flatMap(({ requestHeaders }) => [
    ...Object.keys(requestHeaders?.set ?? {}),
    ...(requestHeaders?.remove ?? []),
  ])
  const key = auth.apiKeys?.header ?? 'x-api-key'
  const keys = [key, ...limits.flatMap(keysRead), ...sendersRead(idempotency)]
  const own = gateway === undefined ? [] : [gateway.requestId.header]
  return new ReservedHeaders([...keys, ...changed, ...own, ...limits.flatMap(namesRead)], keys)
}

/** The field of the key itself, and those that identify its sender. */
function sendersRead(section: IdempotencySection | undefined): string[] {
  if (section === undefined) return []
  return [KEY_FIELD, ...keyed(section.scope), ...keyed(section.otherwise)]
}

function keysRead({ key, otherwise }: LimitSection): string[] {
  return [...keyed(key), ...(otherwise ? keyed(otherwise) : [])]
}

function namesRead({ match, cost }: LimitSection): string[] {
  const names = matched(match)
  if (typeof cost === 'number') return names
  if (Array.isArray(cost)) return [...names, ...cost.flatMap((rule) => matched(rule.match))]
  return [...names, cost.header]
}

function matched(match: MatchSection | undefined): string[] {
  return Object.keys(match?.headers ?? {})
}

function keyed(key: FallbackSection): string[] {
  if (typeof key === 'string') return []
  if (Array.isArray(key)) return key.flatMap(keyed)
  if ('header' in key) return [key.header]
  return 'key' in key ? [...keyed(key.key), ...keyed(key.otherwise)] : []
}
