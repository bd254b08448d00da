/**
 * A policy at work: its store, its compiled limits, and the controllers that all parts of a service
 * share. A new policy is compiled completely, and then replaces the one before in a single step.
 */

import { isDeepStrictEqual } from 'node:util'
import type { Meter } from 'tidegate'
import { maskSecrets } from '../config/mask-secrets.ts'
import { type ReadSecret, secretReader } from '../config/secrets.ts'
import type { ConfigProblem } from '../config/source.ts'
import { overloadSettings } from '../gateway/overload-settings.ts'
import type { ChargeListener } from '../limits/charging/charge-plan.ts'
import { createEnforcer, type Enforcer } from '../limits/enforcer.ts'
import { FailedAttempts } from '../limits/failed-attempts.ts'
import { type LiveEntries, noEntries, type SwitchState } from '../limits/live/live-entries.ts'
import type { Emit } from '../observability/events.ts'
import { Overload, type OverloadSettings } from '../overload/overload.ts'
import { watchLoop } from '../overload/watch-loop.ts'
import type { FailuresSection } from '../policy/schema/auth-section.ts'
import type { PolicyDocument } from '../policy/schema/policy-schema.ts'
import type { Regions } from '../regions/regions.ts'
import { createStore, type OpenStore } from '../stores/create-store.ts'
import { storeSettings } from '../stores/store-settings.ts'
import type { Environment } from './environment.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { PolicyConfig, ServicePolicy } from './policy-config.ts'
import { openRegions } from './regions/open-regions.ts'

export interface PolicyRuntimeOptions {
  readonly config: PolicyConfig
  readonly environment: Environment
  readonly emit: Emit
  /** Receives every decision of a limit that charges. */
  readonly onDecision?: ChargeListener | undefined
  /** Counts the commands of the store. */
  readonly meter?: Meter | undefined
  /** Default: by the sections of the policy. */
  readonly overload?: OverloadSettings | undefined
}

/** Compiles a part of a service; throws if it cannot use the policy. The result swaps it in. */
export type PreparePart = (policy: ServicePolicy) => () => void

/** Sections that are read once: listeners, and the place of the counters. */
const fixedSections = [
  ...(['store', 'admin', 'decisionApi', 'rateLimitService', 'digests', 'regions'] as const),
] as const

/** Fields of `gateway` that its listener is made with. */
const fixedFields = [
  'listen',
  'http2',
  'transport',
  'trustProxy',
  'ipv6Prefix',
  'bodyBytesMax',
  'bodyRateMin',
  'headerBytesMax',
  'timeouts',
  'connectionsMax',
  'connectionsPerIpMax',
  'streamsMax',
  'accessLog',
] as const

export class PolicyRuntime {
  readonly store: OpenStore
  /** Undefined if the policy has no regions. */
  readonly regions: Regions | undefined
  readonly overload: Overload
  readonly failures: FailedAttempts
  readonly readSecret: ReadSecret
  readonly #options: PolicyRuntimeOptions
  readonly #parts: PreparePart[] = []
  #policy: ServicePolicy
  #enforcer: Enforcer
  #refused: readonly string[] = []
  #live = noEntries

  constructor(options: PolicyRuntimeOptions, lifecycle: Lifecycle) {
    const { config, environment, emit } = options
    const { document } = config.policy.value
    this.#options = options
    this.#policy = config.policy
    this.readSecret = secretReader(environment, config.folder)
    this.overload = new Overload(this.#overloadOf(document), { observer: emit })
    this.failures = new FailedAttempts(failuresOf(document))
    const settings = storeSettings(document.store, this.readSecret, config.folder)
    const opened = createStore(settings, {
      ...(document.store.deadline !== undefined && { deadlineMs: document.store.deadline }),
      queueMs: document.store.queue,
      observer: (event) => emit({ type: 'store', store: '', event }),
      ...(options.meter !== undefined && { meter: options.meter }),
      onConnectionError: (error) => emit({ type: 'store-connection', store: '', error }),
    })
    const { folder } = config
    const { readSecret } = this
    const { store, regions } = openRegions(opened, { document, readSecret, folder, emit })
    this.store = store
    this.regions = regions
    this.add(
      ({ value }) =>
        () =>
          regions?.use(value.document),
    )
    lifecycle.add(() => this.store.close())
    this.#enforcer = this.#compile(config.policy, undefined)
    lifecycle.add(() => this.#enforcer.close())
    lifecycle.add(watchLoop(this.overload))
  }

  get document(): PolicyDocument {
    return this.#policy.value.document
  }

  get policy(): ServicePolicy {
    return this.#policy
  }

  /** The state of the switch for limits. */
  get switchState(): SwitchState {
    const entry = this.#live.switch
    return entry !== undefined && entry.expiresAt > Date.now() ? entry.limits : 'on'
  }

  /** Replaces the changes of operators. They stay when the policy changes. */
  useLive(entries: LiveEntries): void {
    this.#enforcer.use(entries)
    this.#live = entries
  }

  /** The limits of the live policy; every request asks for it again. */
  readonly enforcer = (): Enforcer => this.#enforcer

  /** Adds a part that changes with the policy. */
  add(part: PreparePart): void {
    this.#parts.push(part)
  }

  /** Follows the source of the policy. Call it after all parts have started. */
  follow(lifecycle: Lifecycle): void {
    const { source } = this.#options.config
    source?.follow({
      onChange: (policy) => this.#apply(policy),
      onRefused: (problems) => this.#refuse(problems),
    })
    lifecycle.add(() => source?.close())
  }

  /** Returns the reason why a valid policy could not go live here; undefined if it could. */
  problemOf(value: ServicePolicy['value']): string | undefined {
    try {
      const policy = { value, id: 'document', loadedAtMs: Date.now() }
      this.#compile(policy, undefined).close()
      for (const prepare of this.#parts) prepare(policy)
      return undefined
    } catch (error) {
      return firstLine(error instanceof Error ? error.message : String(error))
    }
  }

  status(): object {
    const { id, loadedAtMs } = this.#policy
    const { enabled, limits } = this.document
    return {
      version: id,
      loadedAt: new Date(loadedAtMs).toISOString(),
      enabled,
      limits: limits.length,
      ...(this.#refused.length === 0 ? undefined : { refused: this.#refused }),
    }
  }

  /** A policy that is valid but cannot be used, such as without a secret, is refused as well. */
  #apply(policy: ServicePolicy): readonly ConfigProblem[] | undefined {
    try {
      this.#swap(policy)
      return undefined
    } catch (error) {
      const problems = [{ message: error instanceof Error ? error.message : String(error) }]
      this.#refuse(problems)
      return problems
    }
  }

  /** Compiles all parts first; the assignments that follow cannot fail. */
  #swap(policy: ServicePolicy): void {
    const { document } = policy.value
    const before = { enforcer: this.#enforcer, document: this.document }
    const enforcer = this.#compile(policy, before.enforcer)
    const { overload, swaps } = this.#prepared(policy, enforcer)
    for (const swap of swaps) swap()
    this.overload.configure(overload)
    this.failures.use(failuresOf(document))
    this.#enforcer = enforcer
    this.#policy = policy
    this.#refused = []
    before.enforcer.close()
    const { emit, config } = this.#options
    const limits = limitCount(document)
    const limitsBefore = limitCount(before.document)
    emit({ type: 'config-applied', version: policy.id, limits, limitsBefore })
    const sections = needingRestart(config.policy.value.document, document)
    if (sections.length > 0) emit({ type: 'config-needs-restart', sections })
  }

  /** A part that refuses the policy leaves no enforcer open. */
  #prepared(policy: ServicePolicy, enforcer: Enforcer) {
    try {
      const overload = this.#overloadOf(policy.value.document)
      return { overload, swaps: this.#parts.map((prepare) => prepare(policy)) }
    } catch (error) {
      enforcer.close()
      throw error
    }
  }

  #refuse(problems: readonly ConfigProblem[]): void {
    this.#refused = problems.map(({ message }) => firstLine(message))
    this.#options.emit({ type: 'config-refused', problems: this.#refused })
  }

  /** The enforcer before hands over the tiers that were looked up. */
  #compile({ value }: ServicePolicy, after: Enforcer | undefined): Enforcer {
    const { document, tierTable } = value
    const { emit, onDecision } = this.#options
    return createEnforcer(document, {
      store: this.store.store,
      live: this.#live,
      ...(onDecision !== undefined && { onDecision }),
      observer: (event) => {
        if (event.type === 'tier-unknown' || event.type === 'shadow-failed') emit(event)
      },
      ...(tierTable === undefined ? undefined : { tierTable }),
      ...(after === undefined ? undefined : { after }),
    })
  }

  #overloadOf({ gateway, upstreams }: PolicyDocument): OverloadSettings {
    return this.#options.overload ?? overloadSettings(gateway, upstreams)
  }
}

/** Returns how many limits can refuse a request. */
function limitCount({ enabled, limits }: PolicyDocument): number {
  return enabled ? limits.filter(({ mode }) => mode === 'enforce').length : 0
}

/** A policy that is turned off refuses no request, also after failed authentication. */
function failuresOf({ enabled, auth }: PolicyDocument): FailuresSection {
  return enabled ? auth.failures : 'off'
}

/** Further lines of an error repeat the file. */
function firstLine(message: string): string {
  const [line = ''] = message.split('\n')
  return maskSecrets(line)
}

/** `started` is the policy that the process started with: a change that is undone needs nothing. */
function needingRestart(started: PolicyDocument, now: PolicyDocument): string[] {
  const sections = fixedSections.filter((name) => !isDeepStrictEqual(started[name], now[name]))
  const fields = fixedFields.filter(
    (name) => !isDeepStrictEqual(started.gateway[name], now.gateway[name]),
  )
  const hasTls = ({ gateway }: PolicyDocument) => gateway.tls !== undefined
  return [
    ...sections,
    ...fields.map((name) => `gateway.${name}`),
    ...(hasTls(started) === hasTls(now) ? [] : ['gateway.tls']),
    ...(started.log.level === now.log.level ? [] : ['log.level']),
  ]
}
