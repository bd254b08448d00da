/**
 * Counts under the names of the reference. Names come from the configuration. If it asks for values
 * of requests in names, and for limits that requests bring, the number and the bytes of names are
 * bounded, and everything beyond counts as `other`.
 */

import { createHash } from 'node:crypto'

export interface RuleStats {
  /** Domain and `key_value` of each level, as a name for statsd. */
  readonly name: string
  /** The rule in the configuration, without values of requests. */
  readonly rule: string
  /** Labels for Prometheus: the domain and the first two levels. */
  readonly labels: string
  totalHits: number
  totalNegativeHits: number
  overLimit: number
  /** The hits over the limit that were denied without asking the store. */
  overLimitWithLocalCache: number
  nearLimit: number
  withinLimit: number
  shadowMode: number
  /** Hits of a rule that has no limit. */
  unlimited: number
}

/** Names with values of requests, for one rule. */
const DYNAMIC_MAX = 1_000

/**
 * Characters of one part of such a name. A longer part is cut and has a digest of the whole, so
 * that different values stay different.
 */
const PART_CHARS_MAX = 64

/** Bytes of all such names: each is in 7 lines, which makes pages of about 1 MB. */
const DYNAMIC_BYTES_MAX = 65_536

/** Digits of a digest: among 1,000 names, a collision has a probability of 10^-11. */
const DIGEST_DIGITS = 16

/** Unknown domains of requests. */
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
  readonly #dynamic = new Map<string, DynamicNames>()

  /** Returns the counts of a rule, which outlive the configuration. */
  of(domain: string, keys: readonly string[], rule?: string): RuleStats {
    const name = statKey(domain, keys)
    const known = this.#rules.get(name)
    if (known !== undefined) return known
    const made = newStats(name, rule ?? name, labelsOf(domain, keys))
    this.#rules.set(name, made)
    return made
  }

  /** Returns the counts of a name with values of a request. `source` is the rule of the name. */
  ofDynamic(domain: string, keys: readonly string[], source: string): RuleStats {
    const names = this.#dynamic.get(source) ?? new DynamicNames()
    this.#dynamic.set(source, names)
    const short = keys.map(shortened)
    if (!names.admits(statKey(domain, short))) return this.of(domain, [OTHER])
    return this.of(domain, short, source)
  }

  domainNotFound(domain: string): void {
    const short = shortened(domain)
    const isFull = this.unknownDomains.size >= UNKNOWN_DOMAINS_MAX
    const name = isFull && !this.unknownDomains.has(short) ? OTHER : short
    this.unknownDomains.set(name, (this.unknownDomains.get(name) ?? 0) + 1)
  }

  get rules(): Iterable<RuleStats> {
    return this.#rules.values()
  }
}

/** The names with values of requests, of one source. */
class DynamicNames {
  readonly #names = new Set<string>()
  #bytes = 0

  /** True if the name is known, or there is room for it. */
  admits(name: string): boolean {
    if (this.#names.has(name)) return true
    // Includes the escapes of labels.
    const bytes = Buffer.byteLength(JSON.stringify(name))
    const isFull = this.#names.size >= DYNAMIC_MAX || this.#bytes + bytes > DYNAMIC_BYTES_MAX
    if (isFull) return false
    this.#names.add(name)
    this.#bytes += bytes
    return true
  }
}

function shortened(part: string): string {
  if (part.length <= PART_CHARS_MAX) return part
  const digest = createHash('sha256').update(part).digest('hex').slice(0, DIGEST_DIGITS)
  // A copy, because a slice keeps the whole text in memory.
  const start = Buffer.from(part.slice(0, PART_CHARS_MAX)).toString()
  return `${start}~${digest}`
}

/** Levels below the second have no label: the counts of several rules add up. */
function labelsOf(domain: string, [key1 = '', key2]: readonly string[]): string {
  const labels = `domain="${labelText(domain)}",key1="${labelText(key1)}"`
  return key2 === undefined ? labels : `${labels},key2="${labelText(key2)}"`
}

/** https://prometheus.io/docs/instrumenting/exposition_formats/ */
export function labelText(value: string): string {
  return sanitized(value).replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"')
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

function newStats(name: string, rule: string, labels: string): RuleStats {
  return {
    name,
    rule,
    labels,
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
