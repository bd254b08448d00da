/**
 * A rate limit service with Envoy's files, as operators change it. Files and live entries change on
 * their own; each change makes another plan for all further calls, in a single step.
 */

import type { ExplainAsked } from '../../admin/route.ts'
import { ApiError } from '../../http-api/api-error.ts'
import { ChargeGroups } from '../../limits/charging/charge-group.ts'
import type { StoreRouter } from '../../limits/charging/store-router.ts'
import type { OperatedLimits } from '../../limits/counters.ts'
import { type LiveEntries, noEntries } from '../../limits/live/live-entries.ts'
import { LiveRules } from '../../limits/live/live-rules.ts'
import type { bundleLoader } from '../../rls/config/config-bundle.ts'
import type { RlsConfig } from '../../rls/config/rls-config.ts'
import { EnvoyIndex, EnvoyLimits, entriesOf } from '../../rls/service/envoy-limits.ts'
import { EnvoyPlanner } from '../../rls/service/envoy-planner.ts'
import { explainEnvoy } from '../../rls/service/explain-envoy.ts'
import type { RateLimitService } from '../../rls/service/rate-limit-service.ts'
import type { Stats } from '../../rls/service/stats.ts'
import type { RlsSettings } from '../../rls/settings.ts'
import type { OperatedService } from '../control-room.ts'

export interface OperatedEnvoyParts {
  readonly service: RateLimitService
  readonly stats: Stats
  readonly settings: RlsSettings
  readonly stores: StoreRouter
  /** Loads files as if they were published; undefined without versions. */
  readonly load: ReturnType<typeof bundleLoader> | undefined
}

const noConfig: RlsConfig = { domains: new Map(), rules: [] }

export interface LoadedConfig {
  readonly version: string
  readonly limits: number
  readonly loadedAtMs: number
}

export class OperatedEnvoy implements OperatedService {
  readonly #parts: OperatedEnvoyParts
  #config = noConfig
  #isConfigured = false
  #entries = noEntries
  #index: EnvoyIndex
  #live: LiveRules
  #planner: EnvoyPlanner
  #id = ''
  #loadedAtMs = Date.now()
  #refused: readonly string[] = []

  constructor(parts: OperatedEnvoyParts) {
    this.#parts = parts
    this.#index = new EnvoyIndex(noConfig, parts.settings.keyPrefix)
    this.#live = new LiveRules(noEntries, this.#index, Date.now)
    this.#planner = new EnvoyPlanner(noConfig, parts.stats, parts.settings, this.#live)
  }

  /** Plans all further calls by this configuration. */
  useConfig(config: RlsConfig, id: string): void {
    this.#config = config
    this.#isConfigured = true
    this.#id = id
    this.#loadedAtMs = Date.now()
    this.#refused = []
    this.#replan()
  }

  /** The configuration before stays. */
  refused(problems: readonly string[]): void {
    this.#refused = problems
  }

  useLive(entries: LiveEntries): void {
    this.#entries = entries
    this.#replan()
  }

  limits(): OperatedLimits {
    return new EnvoyLimits({ index: this.#index, live: this.#live, stores: this.#parts.stores })
  }

  /** The configuration in force. */
  loaded(): LoadedConfig {
    const limits = this.#config.rules.length
    return { version: this.#id, limits, loadedAtMs: this.#loadedAtMs }
  }

  status(): object {
    const refused = this.#refused.length === 0 ? undefined : { refused: this.#refused }
    const { domains, rules } = this.#config
    return { version: this.#id, domains: domains.size, limits: rules.length, ...refused }
  }

  async explain({ domain, descriptors }: ExplainAsked): Promise<object> {
    if (domain === undefined || descriptors === undefined) {
      throw new ApiError(422, "domain, descriptors: both are needed, because of Envoy's files")
    }
    const entries = descriptors.map(entriesOf)
    if (!entries.every((one) => one !== undefined)) {
      throw new ApiError(422, 'descriptors: allowed is a text such as key=value for each entry')
    }
    const { stores, settings } = this.#parts
    const groups = new ChargeGroups(stores, settings.charging)
    const parts = { index: this.#index, live: this.#live, planner: this.#planner, groups }
    return { request: { domain }, ...(await explainEnvoy(domain, entries, parts)) }
  }

  async check(text: string): Promise<readonly string[]> {
    const loaded = await this.#parts.load?.(text)
    return loaded === undefined || loaded.ok ? [] : loaded.problems.map(({ message }) => message)
  }

  #replan(): void {
    const { service, stats, settings } = this.#parts
    this.#index = new EnvoyIndex(this.#config, settings.keyPrefix)
    this.#live = new LiveRules(this.#entries, this.#index, Date.now)
    this.#planner = new EnvoyPlanner(this.#config, stats, settings, this.#live)
    // Without a configuration, calls fail, as they do in the reference.
    if (this.#isConfigured) service.use(this.#planner)
  }
}
