/**
 * One process that serves a policy: gateway, decision API, rate limit service and the listener for
 * operators, whichever of them it is started with. They share one store and one set of counters.
 */

import { resolve } from 'node:path'
import type { Logger } from 'pino'
import { refuseOpenAdmin, startAdmin } from '../admin/admin-listener.ts'
import { readTlsFile } from '../config/tls-files.ts'
import { startDecisionApi } from '../decision-api/decision-api.ts'
import {
  evaluateCheck,
  type OutcomeListener,
  priorityMax,
  priorityOfChecks,
} from '../decision-api/evaluate-check.ts'
import { type RunningGateway, startGateway } from '../gateway/gateway.ts'
import type { RunningListener } from '../http-api/listener.ts'
import { oneStore } from '../limits/charging/store-router.ts'
import type { Emit, ServiceEvent } from '../observability/events.ts'
import type { Door, DoorMetrics } from '../observability/metrics/door-metrics.ts'
import { ServiceMetrics } from '../observability/metrics/service-metrics.ts'
import { TopLists } from '../observability/top/top-lists.ts'
import type { PolicyDocument } from '../policy/schema/policy-schema.ts'
import { createPolicyRateLimitService } from '../rls/service/policy-service.ts'
import { ResponseTimes } from '../rls/service/response-times.ts'
import { Stats } from '../rls/service/stats.ts'
import type { RlsServerSettings } from '../rls/settings.ts'
import type { OpenStore } from '../stores/create-store.ts'
import { ControlRoom } from './control-room.ts'
import { callCounter, topCounter, topSecret, turning } from './decision-listeners.ts'
import { type Lifecycle, startWith } from './lifecycle.ts'
import { adminAccess, hasAdminApi } from './operators/admin-access.ts'
import { operatedPolicy } from './operators/operated-policy.ts'
import { PolicyRuntime, type PolicyRuntimeOptions } from './policy-runtime.ts'
import { type RlsListeners, startRlsListeners } from './rls-listeners.ts'
import { addGauges, metricsResponse, type ReadPage } from './service-pages.ts'

export interface PolicyServiceOptions extends PolicyRuntimeOptions {
  /** The version of the program. */
  readonly version: string
  readonly parts: PolicyServiceParts
  /** True if other processes serve the same listeners. */
  readonly isWorker?: boolean
  /** Returns the page of all processes from that of this one. Default: it is the only one. */
  readonly pageOfAll?: (own: ReadPage) => ReadPage
}

export interface PolicyServiceParts {
  readonly gateway: GatewayPart | undefined
  /** Whether the sections `decisionApi` and `admin` of the policy are served. */
  readonly apis: boolean
  /** The settings of the rate limit service, if it is a part. */
  readonly rateLimitService: RlsServerSettings | undefined
}

export interface GatewayPart {
  /** For the lines of requests; everything else is emitted. */
  readonly logger: Logger
  /** Processes with the same instance have the same name in `Via`. */
  readonly instance: string | undefined
}

export interface PolicyService {
  readonly store: OpenStore
  readonly gateway: RunningGateway | undefined
  readonly rateLimitService: RlsListeners | undefined
  readonly decisionApi: RunningListener | undefined
  readonly admin: RunningListener | undefined
  /** Drains requests and closes everything. */
  close(): Promise<void>
}

export function startPolicyService(options: PolicyServiceOptions): Promise<PolicyService> {
  return startWith(async (lifecycle) => {
    const service = new Service(options, lifecycle)
    await service.start()
    return service
  })
}

class Service implements PolicyService {
  gateway: RunningGateway | undefined
  rateLimitService: RlsListeners | undefined
  decisionApi: RunningListener | undefined
  admin: RunningListener | undefined
  readonly #options: PolicyServiceOptions
  readonly #lifecycle: Lifecycle
  readonly #runtime: PolicyRuntime
  readonly #stats = new Stats()
  readonly #startedAtMs = Date.now()
  /** Undefined without a listener for operators, which is where they are read. */
  readonly #metrics: ServiceMetrics | undefined
  /** Undefined without the admin API, which is where they are read. */
  readonly #top: TopLists | undefined
  readonly #emit: Emit
  #control: ControlRoom | undefined
  #isStarted = false

  constructor(options: PolicyServiceOptions, lifecycle: Lifecycle) {
    this.#options = options
    this.#lifecycle = lifecycle
    const { admin } = options.config.policy.value.document
    const metrics = admin === undefined ? undefined : new ServiceMetrics()
    this.#metrics = metrics
    const emit = (event: ServiceEvent) => {
      metrics?.observe(event)
      this.#count(event)
      options.emit(event)
    }
    const { control } = options.config
    if (control !== undefined) lifecycle.add(() => control.plane.close())
    const top = hasAdminApi(admin) ? new TopLists({ secret: topSecret(options) }) : undefined
    this.#top = top
    if (top !== undefined) lifecycle.add(turning(top))
    const onDecision = top && topCounter(top)
    const { meter } = metrics?.store ?? {}
    this.#runtime = new PolicyRuntime({ ...options, emit, meter, onDecision }, lifecycle)
    this.#emit = emit
    if (metrics === undefined) return
    const runtime = this.#runtime
    addGauges(
      { metrics, runtime, version: options.version, gateway: () => this.gateway },
      lifecycle,
    )
    runtime.add(({ value }) => () => {
      metrics.decisions.keepLimits(value.document.limits.map(({ name }) => name))
    })
  }

  get store(): OpenStore {
    return this.#runtime.store
  }

  async start(): Promise<void> {
    const { parts } = this.#options
    const { document } = this.#runtime
    await this.#openControl(document)
    if (parts.apis || parts.rateLimitService) await this.#startAdmin(document)
    // The service also starts without Redis, and each limit decides as it declares.
    await this.store.ready().catch(() => undefined)
    if (parts.apis) await this.#startDecisionApi(document)
    this.#lifecycle.add(() => this.#drain())
    if (parts.gateway) await this.#startGateway(document, parts.gateway)
    if (parts.rateLimitService) await this.#startRateLimitService(parts.rateLimitService)
    this.#stats.configLoadSuccess++
    const { config } = this.#options
    config.control?.plane.start(this.#emit, config.policy.id)
    this.#runtime.follow(this.#lifecycle)
    this.#isStarted = true
  }

  close(): Promise<void> {
    return this.#lifecycle.close()
  }

  /** At once, because each may take as long as its slowest request. */
  async #drain(): Promise<void> {
    this.#isStarted = false
    await Promise.all([this.gateway?.close(), this.rateLimitService?.close()])
  }

  async #startGateway(sections: PolicyDocument, part: GatewayPart): Promise<void> {
    const { config } = this.#options
    const { enforcer, failures, overload, readSecret } = this.#runtime
    const gateway = await startGateway({
      sections,
      keyTable: config.policy.value.keyTable,
      policy: { enforcer },
      failures,
      overload,
      readSecret,
      folder: config.folder,
      metrics: this.#metrics && {
        gateway: this.#metrics.gateway,
        door: this.#metrics.decisions.door('gateway', this.store.store.isRemote),
      },
      ...part,
    })
    this.gateway = gateway
    this.#runtime.add(({ value }) => gateway.prepare(value.document, value.keyTable))
  }

  async #startRateLimitService(settings: RlsServerSettings): Promise<void> {
    const stats = this.#stats
    const times = new ResponseTimes()
    const door = this.#door('rls')
    const { enforcer, overload } = this.#runtime
    const service = createPolicyRateLimitService({
      enforcer,
      stores: oneStore(this.store.store),
      stats,
      times,
      settings,
      overload,
      onCall: door && callCounter(door, this.#top),
      onError: (error) => this.#emit({ type: 'error', error }),
    })
    this.rateLimitService = await startRlsListeners({
      settings,
      service,
      stats,
      times,
      isReady: () => this.store.isReady(),
      configText: () => limitsText(this.#runtime.document),
    })
  }

  async #startDecisionApi({ decisionApi, gateway }: PolicyDocument): Promise<void> {
    if (decisionApi === undefined) return
    const { listen, token, batchMax, bodyBytesMax } = decisionApi
    const { enforcer, failures, overload, readSecret } = this.#runtime
    const door = this.#door('decision_api')
    const onOutcome: OutcomeListener = (outcome, tookMs) => door?.decidedAfter(outcome, tookMs)
    const listener = await startDecisionApi({
      host: listen.host ?? '127.0.0.1',
      port: listen.port,
      token: readSecret(token, 'decisionApi.token'),
      batchMax,
      bodyBytesMax,
      version: this.#options.version,
      failures,
      ipv6Prefix: gateway.ipv6Prefix,
      overload,
      priorityMax: () => priorityMax(enforcer()),
      priorityOf: (checks) => priorityOfChecks(enforcer(), checks),
      evaluate: (check) => evaluateCheck(enforcer(), check, onOutcome),
    })
    this.decisionApi = listener
    this.#lifecycle.add(() => listener.close())
  }

  /** Closed after the others, so that `/status` also responds while requests are drained. */
  async #startAdmin({ admin }: PolicyDocument): Promise<void> {
    if (admin === undefined) return
    const { config, pageOfAll } = this.#options
    const { host = '127.0.0.1', port } = admin.listen
    const own: ReadPage = async () => this.#metrics?.read() ?? []
    const readPage = pageOfAll?.(own) ?? own
    const control = hasAdminApi(admin) ? this.#control : undefined
    refuseOpenAdmin(host, admin.tls !== undefined, control !== undefined)
    const listener = await startAdmin({
      host,
      port,
      tls: admin.tls && listenerTls(admin.tls, config.folder),
      api: control && {
        context: control.context(this.#adminParts()),
        access: adminAccess(admin, this.#runtime.readSecret),
      },
      metrics: (accept) => metricsResponse(readPage, accept),
      status: () => this.#status(),
      isReady: () => this.#isReady,
      onError: (error) => this.#emit({ type: 'error', error }),
    })
    this.admin = listener
    this.#lifecycle.add(() => listener.close())
  }

  async #openControl({ admin }: PolicyDocument): Promise<void> {
    const { isWorker = false, version, config } = this.#options
    const emit = this.#emit
    const { control, folder } = config
    if (control === undefined && !hasAdminApi(admin)) return
    const opened = await ControlRoom.open({
      ...{ plane: control?.plane, isWorker, version, emit },
      stateFile: admin?.state === undefined ? undefined : resolve(folder, admin.state),
      service: operatedPolicy(this.#runtime, control),
    })
    this.#control = opened
    this.#lifecycle.add(() => opened.close())
  }

  #adminParts() {
    const { version } = this.#options
    const read: TopLists['read'] = (...asked) => {
      return this.#top?.read(...asked) ?? { sinceMs: this.#startedAtMs, total: 0, keys: [] }
    }
    return { version, status: () => this.#status(), top: read }
  }

  #door(door: Door): DoorMetrics | undefined {
    return this.#metrics?.decisions.door(door, this.store.store.isRemote)
  }

  get #isReady(): boolean {
    return this.#isStarted && (this.gateway?.isReady ?? true)
  }

  /** The metrics of the rate limit service count policies as it counts configurations. */
  #count(event: ServiceEvent): void {
    const { control } = this.#options.config
    if (event.type === 'config-applied') {
      this.#stats.configLoadSuccess++
      control?.plane.applied(event.version)
    }
    if (event.type === 'config-refused') {
      this.#stats.configLoadError++
      control?.plane.refused(event.problems)
    }
  }

  #status(): object {
    const { overload } = this.#runtime
    return {
      program: this.#options.version,
      startedAt: new Date(this.#startedAtMs).toISOString(),
      ready: this.#isReady,
      policy: this.#runtime.status(),
      upstreams: this.gateway?.upstreams() ?? {},
      store: { kind: this.store.description, connected: this.store.isConnected() },
      overload: overload.status(),
      ...(this.#control && { control: this.#control.status() }),
    }
  }
}

function listenerTls(
  { cert, key, clientCa }: NonNullable<NonNullable<PolicyDocument['admin']>['tls']>,
  folder: string,
) {
  const read = (file: string) => readTlsFile(file, folder)
  return {
    cert: read(cert),
    key: read(key),
    clientCa: clientCa === undefined ? undefined : read(clientCa),
  }
}

/** One line for each limit, for the debug page. */
function limitsText({ limits }: PolicyDocument): string {
  return limits.map((limit) => `${limit.name}: ${JSON.stringify(limit)}\n`).join('')
}
