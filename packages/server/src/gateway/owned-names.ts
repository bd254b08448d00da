/**
 * Names of header fields that the gateway reads or sets. Other servers take `X_Tenant`, `X.Tenant`
 * and `X~Tenant` for `X-Tenant`. Fields of clients under such names are not forwarded, because the
 * upstream would read a value that no limit has seen.
 */

import type { AuthSection, RoutesSection } from '../policy/gateway-section.ts'
import type { FallbackSection, LimitSection, MatchSection } from '../policy/limits-section.ts'

export interface NamingSections {
  readonly auth: AuthSection
  readonly routes: RoutesSection
  readonly limits?: readonly LimitSection[]
}

export class OwnedNames {
  readonly #names: ReadonlySet<string>
  readonly #plain: ReadonlySet<string>
  readonly #keys: ReadonlySet<string>

  /** `keys` are those of the names whose values are keys of limits or of clients. */
  constructor(names: readonly string[], keys: readonly string[] = []) {
    this.#names = new Set(names)
    this.#keys = new Set(keys)
    this.#plain = new Set(names.map(plainName))
  }

  /** Whether some spelling of it is one of them. */
  has(plain: string): boolean {
    return this.#plain.has(plain)
  }

  /** Whether its value is a key, of which a request has one. */
  isKey(name: string): boolean {
    return this.#keys.has(name)
  }

  /** Whether it is another spelling of one of them. */
  isAlias(name: string, plain: string): boolean {
    return this.#plain.has(plain) && !this.#names.has(name)
  }
}

/** CGI makes an underscore of each of these: `X!Tenant` is HTTP_X_TENANT to some servers. */
const otherThanPlain = /[^0-9A-Za-z-]/

export function plainName(name: string): string {
  return otherThanPlain.test(name) ? name.replaceAll(/[^0-9A-Za-z-]/g, '-') : name
}

export function ownedNames({ auth, routes, limits = [] }: NamingSections): OwnedNames {
  const changed = routes.flatMap(({ requestHeaders }) => [
    ...Object.keys(requestHeaders?.set ?? {}),
    ...(requestHeaders?.remove ?? []),
  ])
  const key = auth.apiKeys?.header ?? 'x-api-key'
  const keys = [key, ...limits.flatMap(keysRead)]
  return new OwnedNames([...keys, ...changed, ...limits.flatMap(namesRead)], keys)
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
