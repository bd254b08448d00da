/**
 * All metrics of a service. Parts count in their own families; the stream of events is counted
 * here. Gauges are read when a page is asked for.
 */

import {
  counterFamily,
  gauge,
  type LimiterMetrics,
  limiterMetrics,
  type MetricFamily,
} from 'tidegate/metrics'
import type { ServiceEvent } from '../events.ts'
import { DecisionMetrics } from './door-metrics.ts'
import { GatewayMetrics } from './gateway-metrics.ts'
import { IdempotencyMetrics } from './idempotency-metrics.ts'

export type ReadFamilies = () => readonly MetricFamily[]

/** The results of audit records. */
const attemptResults = ['done', 'refused', 'conflict', 'denied'] as const

export class ServiceMetrics {
  readonly decisions = new DecisionMetrics()
  readonly idempotency = new IdempotencyMetrics()
  /** Its meter is that of the store. */
  readonly store: LimiterMetrics = limiterMetrics()
  readonly #loads = counterFamily({
    name: 'tidegate_policy_loads_total',
    help: 'Policies that were applied or refused.',
    labels: ['result'],
  })
  readonly #tiers = counterFamily({
    name: 'tidegate_tier_failures_total',
    help: 'Tiers that could not be looked up, so that the last known or the default one applied.',
    labels: ['reason'],
  })
  readonly #shadows = counterFamily({
    name: 'tidegate_shadow_failures_total',
    help: 'Decisions in shadow mode that failed.',
  })
  readonly #errors = counterFamily({
    name: 'tidegate_errors_total',
    help: 'Failures that should not happen.',
  })
  readonly gateway = new GatewayMetrics(this.#errors.of())
  readonly #connections = counterFamily({
    name: 'tidegate_store_connection_errors_total',
    help: 'Connections to the store that failed.',
  })
  readonly #disconnects = counterFamily({
    name: 'tidegate_source_disconnects_total',
    help: 'Times that the source of policies stopped answering.',
  })
  readonly #attempts = counterFamily({
    name: 'tidegate_admin_attempts_total',
    help: 'Changes and failed attempts of operators, by result, as the audit records them.',
    labels: ['result'],
  })
  readonly #contact = { isReachable: undefined as boolean | undefined, lostAtMs: 0 }
  #entries = { overrides: 0, blocks: 0, problems: 0 }
  readonly #reads: ReadFamilies[] = []

  constructor() {
    // Alerts need a series from the beginning, because an increase is a difference.
    for (const result of ['applied', 'refused']) this.#loads.of(result)
    for (const result of attemptResults) this.#attempts.of(result)
    for (const family of [this.#shadows, this.#connections, this.#disconnects]) family.of()
  }

  /** Adds families that are read when a page is made. */
  add(read: ReadFamilies): void {
    this.#reads.push(read)
  }

  /** Counts an event of the service. */
  observe(event: ServiceEvent): void {
    switch (event.type) {
      case 'config-applied':
        this.#loads.of('applied').value += 1
        return
      case 'config-refused':
        this.#loads.of('refused').value += 1
        return
      case 'tier-unknown':
        this.#tiers.of(event.reason).value += 1
        return
      case 'shadow-failed':
        this.#shadows.of().value += 1
        return
      case 'store-connection':
        this.#connections.of().value += 1
        return
      case 'control-contact':
        this.#noteContact(event.isReachable)
        return
      case 'live-entries': {
        const { overrides, blocks, problems } = event
        this.#entries = { overrides, blocks, problems: problems.length }
        return
      }
      case 'audit': {
        const result = attemptResults.find((one) => one === Reflect.get(event.record, 'result'))
        if (result !== undefined) this.#attempts.of(result).value += 1
        return
      }
      case 'error':
        this.#errors.of().value += 1
        return
      default:
        return
    }
  }

  read(): readonly MetricFamily[] {
    const startMs = performance.now()
    const own = [this.#loads, this.#tiers, this.#shadows, this.#errors, this.#connections]
    const { overrides, blocks, problems } = this.#entries
    const families = [
      ...this.decisions.read(),
      ...this.gateway.read(),
      ...this.idempotency.read(),
      ...this.store.snapshot().filter(isOfStore),
      ...[...own, this.#disconnects, this.#attempts].map((family) => family.read()),
      gauge('tidegate_overrides', 'Live overrides.', overrides),
      gauge('tidegate_blocks', 'Live blocks.', blocks),
      gauge('tidegate_entry_problems', 'Live entries that could not be used.', problems),
      ...this.#sourceGauges(),
      ...this.#reads.flatMap((read) => read()),
      this.#overflows(),
    ]
    const tookSeconds = (performance.now() - startMs) / 1_000
    const help = 'Time to read the numbers of this page.'
    return [...families, gauge('tidegate_scrape_duration_seconds', help, tookSeconds)]
  }

  #noteContact(isReachable: boolean): void {
    if (!isReachable && this.#contact.isReachable !== false) {
      this.#contact.lostAtMs = Date.now()
      this.#disconnects.of().value += 1
    }
    this.#contact.isReachable = isReachable
  }

  /** Only with a source that can be away, such as etcd. */
  #sourceGauges(): readonly MetricFamily[] {
    const { isReachable, lostAtMs } = this.#contact
    const isKnown = isReachable !== undefined
    const lastMs = isReachable === true ? Date.now() : lostAtMs
    return [
      gauge(
        'tidegate_source_connected',
        'Whether the source of policies answers.',
        isKnown ? Number(isReachable) : undefined,
      ),
      gauge(
        'tidegate_source_last_contact_timestamp_seconds',
        'When the source of policies last answered, in seconds since 1970.',
        isKnown ? lastMs / 1_000 : undefined,
      ),
    ]
  }

  #overflows(): MetricFamily {
    const families = [...this.decisions.families, ...this.gateway.families]
    const samples = families
      .filter(({ overflows }) => overflows > 0)
      .map(({ name, overflows }) => ({ labels: { metric: name }, value: overflows }))
    const help = 'Series that were counted as other, because a metric has too many names.'
    return { name: 'tidegate_label_overflows_total', help, type: 'counter', samples }
  }
}

/** Decisions are counted by door instead. */
function isOfStore({ name }: MetricFamily): boolean {
  return !name.startsWith('tidegate_limiter_')
}
