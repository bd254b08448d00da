/**
 * The composition root: a policy, a store, the gateway, the decision API and the listener for
 * operators, put together, kept in step with the policy, and ended in the right order.
 */

import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import type { LimiterEvent } from 'tidegate'
import { startAdmin } from './admin-listener.ts'
import { startDecisionApi } from './decision-api/decision-api.ts'
import { judgeCheck, priorityMax, priorityOfChecks } from './decision-api/judge-check.ts'
import { overloadSettings } from './gateway/overload-settings.ts'
import { type RunningGateway, startGateway } from './gateway/start-gateway.ts'
import type { HttpDoor } from './http-door.ts'
import { Overload, type OverloadEvent } from './overload/overload.ts'
import { watchLoop } from './overload/watch-loop.ts'
import { createEnforcer, type Enforcer } from './policy/enforcer.ts'
import type { PolicyFiles } from './policy/load-policy.ts'
import type { PolicyObserver } from './policy/policy-observer.ts'
import type { PolicyProblem } from './policy/policy-problem.ts'
import type { PolicyDocument } from './policy/policy-schema.ts'
import type { ReadSecret } from './policy/secrets.ts'
import { createStore, type OpenStore } from './stores/create-store.ts'
import { storeSettings } from './stores/store-settings.ts'

/** A policy as it goes live. */
export interface ServicePolicy extends Pick<PolicyFiles, 'document' | 'tierTable'> {
  readonly version: { readonly id: string; readonly loadedAtMs: number }
}

export interface ServiceOptions {
  readonly policy: ServicePolicy
  readonly logger: Logger
  readonly readSecret: ReadSecret
  /** Where relative file names in the policy begin. */
  readonly folder: string
  /** Of the program. */
  readonly version: string
}

export interface RunningService {
  readonly gateway: RunningGateway
  readonly store: OpenStore
  readonly decisionApi: HttpDoor | undefined
  readonly admin: HttpDoor | undefined
  /** Makes a new policy live. Throws and changes nothing where it cannot be used. */
  apply(policy: ServicePolicy): void
  /** Says in `/status` that the file has a policy that was refused. */
  refuse(problems: readonly PolicyProblem[]): void
  /** Drains and closes everything. */
  close(): Promise<void>
}

/** Sections that are read once: what listens and where counters are. */
const fixedSections = ['store', 'admin', 'decisionApi'] as const

/** Of the gateway: what its listener is made with. */
const fixedFields = [
  'listen',
  'http2',
  'trustProxy',
  'ipv6Prefix',
  'bodyBytesMax',
  'bodyRateMin',
  'headerBytesMax',
  'timeouts',
  'connectionsMax',
  'connectionsPerIpMax',
  'streamsMax',
] as const

/** The same complaint of a client library is worth a line now and then, not for each attempt. */
const CONNECTION_LINE_MS = 5_000

/** `Redis: NOPERM this user …`: the code and the start of the sentence. */
const KIND_LENGTH = 24
const KINDS_MAX = 32

export async function startService(options: ServiceOptions): Promise<RunningService> {
  const { document } = options.policy
  const { logger, readSecret, folder } = options
  const store = createStore(storeSettings(document.store, readSecret, folder), {
    ...(document.store.deadline !== undefined && { deadlineMs: document.store.deadline }),
    queueMs: document.store.queue,
    observer: storeObserver(logger),
    onConnectionError: everyNowAndThen((error) =>
      logger.warn({ event: 'store.connection', reason: error.message }),
    ),
  })
  const service = new Service(options, store)
  try {
    await service.start()
    return service
  } catch (error) {
    await service.close()
    throw error
  }
}

class Service implements RunningService {
  readonly store: OpenStore
  readonly #options: ServiceOptions
  #policy: ServicePolicy
  #enforcer: Enforcer
  #refused: readonly PolicyProblem[] = []
  #gateway: RunningGateway | undefined
  #decisionApi: HttpDoor | undefined
  #admin: HttpDoor | undefined
  readonly #startedAtMs = Date.now()
  readonly #overload: Overload
  #stopWatching: () => void = () => undefined

  constructor(options: ServiceOptions, store: OpenStore) {
    this.#options = options
    const { gateway, upstreams } = options.policy.document
    this.#overload = new Overload(overloadSettings(gateway, upstreams), {
      observer: overloadObserver(options.logger),
    })
    this.store = store
    this.#policy = options.policy
    this.#enforcer = this.#enforcerOf(options.policy, undefined)
  }

  async start(): Promise<void> {
    const { logger, readSecret, folder, version } = this.#options
    const { document } = this.#policy
    // Without Redis the gateway starts as well, and each limit decides as it declares.
    await this.store.ready().catch(() => undefined)
    this.#stopWatching = watchLoop(this.#overload)
    this.#gateway = await startGateway({
      sections: document,
      policy: { enforcer: () => this.#enforcer },
      overload: this.#overload,
      logger,
      readSecret,
      folder,
    })
    const { decisionApi, admin } = document
    if (decisionApi !== undefined) {
      const { listen, token, batchMax, bodyBytesMax } = decisionApi
      this.#decisionApi = await startDecisionApi({
        host: listen.host ?? '127.0.0.1',
        port: listen.port,
        token: readSecret(token, 'decisionApi.token'),
        batchMax,
        bodyBytesMax,
        version,
        overload: this.#overload,
        priorityMax: () => priorityMax(this.#enforcer),
        priorityOf: (checks) => priorityOfChecks(this.#enforcer, checks),
        judge: (check) => judgeCheck(this.#enforcer, check),
      })
    }
    if (admin !== undefined) {
      this.#admin = await startAdmin({
        host: admin.listen.host ?? '127.0.0.1',
        port: admin.listen.port,
        status: () => this.#status(),
        isReady: () => this.gateway.isReady,
      })
    }
  }

  get gateway(): RunningGateway {
    if (this.#gateway === undefined) throw new Error('the gateway was not started')
    return this.#gateway
  }

  get decisionApi(): HttpDoor | undefined {
    return this.#decisionApi
  }

  get admin(): HttpDoor | undefined {
    return this.#admin
  }

  apply(policy: ServicePolicy): void {
    const enforcer = this.#enforcerOf(policy, this.#enforcer)
    const { gateway, upstreams } = policy.document
    this.gateway.reload(policy.document)
    this.#overload.configure(overloadSettings(gateway, upstreams))
    const before = this.#enforcer
    const changed = needingRestart(this.#options.policy.document, policy.document)
    this.#enforcer = enforcer
    this.#policy = policy
    this.#refused = []
    before.close()
    const { logger } = this.#options
    logger.info({ event: 'policy.applied', version: policy.version.id })
    if (changed.length > 0) logger.warn({ event: 'policy.needs_restart', sections: changed })
  }

  refuse(problems: readonly PolicyProblem[]): void {
    this.#refused = problems
    const messages = problems.map(({ message }) => message)
    this.#options.logger.error({ event: 'policy.refused', problems: messages })
  }

  async close(): Promise<void> {
    await this.#gateway?.close()
    await this.#decisionApi?.close()
    this.#enforcer.close()
    await this.store.close()
    await this.#admin?.close()
    this.#stopWatching()
  }

  /** One after another keeps the tiers that were looked up. */
  #enforcerOf({ document, tierTable }: ServicePolicy, after: Enforcer | undefined): Enforcer {
    return createEnforcer(document, {
      store: this.store.store,
      observer: policyObserver(this.#options.logger),
      ...(tierTable === undefined ? undefined : { tierTable }),
      ...(after === undefined ? undefined : { after }),
    })
  }

  #status(): object {
    const { document, version } = this.#policy
    return {
      program: this.#options.version,
      startedAt: new Date(this.#startedAtMs).toISOString(),
      ready: this.gateway.isReady,
      policy: {
        version: version.id,
        loadedAt: new Date(version.loadedAtMs).toISOString(),
        enabled: document.enabled,
        limits: document.limits.length,
        ...(this.#refused.length === 0
          ? undefined
          : { refused: this.#refused.map(({ message }) => message) }),
      },
      store: { kind: this.store.description, connected: this.store.isConnected() },
      overload: this.#overload.status(),
    }
  }
}

/** `started` is what the process runs with, so that a change that was taken back is none. */
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

/** What happened to the store, without a line for each decision: the log of decisions has those. */
function storeObserver(logger: Logger): (event: LimiterEvent) => void {
  const misused = everyNowAndThenEach((reason: string) =>
    logger.error({ event: 'store.misused', reason }),
  )
  return (event) => {
    switch (event.type) {
      case 'breaker':
        logger.warn({ event: 'store.breaker', shard: event.shard, from: event.from, to: event.to })
        break
      case 'recovered':
        logger.warn({ event: 'store.recovered', shard: event.shard, outage_ms: event.outageMs })
        break
      case 'misused':
        misused(event.error.message)
        break
      case 'hot':
        logger.info({ event: 'store.hot_key', limit: event.limit, per_second: event.perSecond })
        break
      case 'nodes':
        logger.debug({ event: 'store.nodes', count: event.count })
        break
      default:
    }
  }
}

/** Refused requests have their own lines, of which there is a maximum per second. */
function overloadObserver(logger: Logger): (event: OverloadEvent) => void {
  return (event) => {
    if (event.type === 'overloaded') {
      const delayMs = Math.round(event.delayMs)
      const { requests } = event
      logger.warn({ event: 'overload.began', delay_ms: delayMs, requests })
    } else {
      logger.warn({ event: 'overload.ended', for_ms: Math.round(event.forMs), shed: event.shed })
    }
  }
}

function policyObserver(logger: Logger): PolicyObserver {
  const tell = everyNowAndThen((line: object) => logger.warn(line))
  return (event) => {
    if (event.type === 'tier-unknown') {
      tell({ event: 'policy.tier_unknown', reason: event.reason, detail: event.detail })
    } else if (event.type === 'shadow-failed') {
      tell({ event: 'policy.shadow_failed', limit: event.limit })
    }
  }
}

function everyNowAndThen<T>(tell: (what: T) => void): (what: T) => void {
  let toldAtMs = Number.NEGATIVE_INFINITY
  return (what) => {
    const nowMs = performance.now()
    if (nowMs - toldAtMs < CONNECTION_LINE_MS) return
    toldAtMs = nowMs
    tell(what)
  }
}

/** The same for each of some texts: one that comes all the time does not hide another. */
function everyNowAndThenEach(tell: (what: string) => void): (what: string) => void {
  const tellers = new Map<string, (what: string) => void>()
  return (what) => {
    // What differs between two of a kind, such as a slot, stands behind the first words.
    const kind = what.slice(0, KIND_LENGTH)
    if (tellers.size >= KINDS_MAX) tellers.clear()
    const teller = tellers.get(kind) ?? everyNowAndThen(tell)
    tellers.set(kind, teller)
    teller(what)
  }
}
