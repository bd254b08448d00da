/**
 * What is counted, under the reference's names. Names come from the configuration; where it asks
 * for values of requests in names, and for limits that requests bring, there is a cap, behind which
 * everything counts as `other`.
 */

export interface RuleStats {
  readonly domain: string
  /** `key_value` of each level. */
  readonly keys: readonly string[]
  totalHits: number
  totalNegativeHits: number
  overLimit: number
  /** Of those, the hits for which the store was not asked, because the denial was known. */
  overLimitWithLocalCache: number
  nearLimit: number
  withinLimit: number
  shadowMode: number
  /** Hits of a rule that has no limit. */
  unlimited: number
}

/** Names that requests may make, of one rule or of overrides. */
const DYNAMIC_MAX = 1_000

/** Domains that were asked for and do not exist. */
const UNKNOWN_DOMAINS_MAX = 100

const OTHER = 'other'

export class Stats {
  configLoadSuccess = 0
  configLoadError = 0
  globalShadowMode = 0
  storeErrors = 0
  serviceErrors = 0
  totalRequests = 0
  /** Calls refused because the process is overloaded. */
  shedCalls = 0
  readonly unknownDomains = new Map<string, number>()
  readonly #rules = new Map<string, RuleStats>()
  readonly #dynamic = new Map<string, Set<string>>()

  /** Of a rule as it is configured. They outlive the configuration. */
  of(domain: string, keys: readonly string[]): RuleStats {
    const id = statKey(domain, keys)
    const known = this.#rules.get(id)
    if (known !== undefined) return known
    const made = newStats(domain, keys)
    this.#rules.set(id, made)
    return made
  }

  /** Of a name that holds values of a request. `source` is what made it. */
  ofDynamic(domain: string, keys: readonly string[], source: string): RuleStats {
    const names = this.#dynamic.get(source) ?? new Set<string>()
    this.#dynamic.set(source, names)
    const id = statKey(domain, keys)
    if (!names.has(id) && names.size >= DYNAMIC_MAX) return this.of(domain, [OTHER])
    names.add(id)
    return this.of(domain, keys)
  }

  domainNotFound(domain: string): void {
    const isFull = this.unknownDomains.size >= UNKNOWN_DOMAINS_MAX
    const name = isFull && !this.unknownDomains.has(domain) ? OTHER : domain
    this.unknownDomains.set(name, (this.unknownDomains.get(name) ?? 0) + 1)
  }

  get rules(): Iterable<RuleStats> {
    return this.#rules.values()
  }
}

/** Names that statsd can hold: no colons or pipes, and no dots within an IPv4 address. */
export function statKey(domain: string, keys: readonly string[]): string {
  return [domain, ...keys].map(sanitized).join('.')
}

function sanitized(text: string): string {
  return text
    .replaceAll(/[:|]/g, '_')
    .replaceAll(/\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}/g, (ip) => ip.replaceAll('.', '_'))
}

function newStats(domain: string, keys: readonly string[]): RuleStats {
  return {
    domain,
    keys,
    totalHits: 0,
    totalNegativeHits: 0,
    overLimit: 0,
    overLimitWithLocalCache: 0,
    nearLimit: 0,
    withinLimit: 0,
    shadowMode: 0,
    unlimited: 0,
  }
}
