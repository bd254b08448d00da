/**
 * One process that serves a policy: gateway, decision API, rate limit service and the listener for
 * operators, whichever of them it is started with. They share one store and one set of counters.
 */

import { resolve } from 'node:path'
import { refuseOpenAdmin, startAdmin } from '../admin/admin-listener.ts'
import { endStreams } from '../admin/routes/console-routes.ts'
import { secretReader } from '../config/secrets.ts'
import { type RunningGateway, startGateway } from '../gateway/gateway.ts'
import type { ConnectionSource } from '../http-api/handed-connections.ts'
import type { RunningListener } from '../http-api/listener.ts'
import type { ChargeListener } from '../limits/charging/charge-plan.ts'
import { oneStore } from '../limits/charging/store-router.ts'
import type { Emit, ServiceEvent } from '../observability/events.ts'
import type { LineSink } from '../observability/lines/line-sink.ts'
import type { LogLevel } from '../observability/log-level.ts'
import type { Door, DoorMetrics } from '../observability/metrics/door-metrics.ts'
import { ServiceMetrics } from '../observability/metrics/service-metrics.ts'
import { TopLists } from '../observability/top/top-lists.ts'
import type { StartedTracing } from '../observability/tracing/start-tracing.ts'
import type { Tracing } from '../observability/tracing/tracing.ts'
import type { PolicyDocument } from '../policy/schema/policy-schema.ts'
import { createPolicyRateLimitService } from '../rls/service/policy-service.ts'
import { ResponseTimes } from '../rls/service/response-times.ts'
import { Stats } from '../rls/service/stats.ts'
import type { RlsServerSettings } from '../rls/settings.ts'
import type { OpenStore } from '../stores/create-store.ts'
import { ConsoleFeed } from './console/console-feed.ts'
import { loadLimits } from './console/load-limits.ts'
import { nodeStateOf, type StatusDocument, targetViews } from './console/node-state.ts'
import { nodeName } from './control-plane.ts'
import { ControlRoom } from './control-room.ts'
import { openDecisionApi } from './decisions/decision-door.ts'
import { bothListeners, callCounter, keyObserver, turning } from './decisions/decision-listeners.ts'
import { type Lifecycle, startWith } from './lifecycle.ts'
import { callLogger } from './logs/decision-lines.ts'
import { RequestLog } from './logs/request-log.ts'
import { openTracing } from './open-tracing.ts'
import { adminAccess, hasAdminApi, listenerTls } from './operators/admin-access.ts'
import { operatedKeys } from './operators/operated-keys.ts'
import { operatedPolicy } from './operators/operated-policy.ts'
import { PolicyRuntime, type PolicyRuntimeOptions } from './policy-runtime.ts'
import { regionsStatus } from './regions/open-regions.ts'
import { type RlsListeners, startRlsListeners } from './rls-listeners.ts'
import { limitsText } from './rls-section.ts'
import { addGauges, metricsResponse, type ReadPage } from './service-pages.ts'

export interface PolicyServiceOptions extends PolicyRuntimeOptions {
  /** The version of the program. */
  readonly version: string
  readonly parts: PolicyServiceParts
  /** The standard output, if the log is written there: the access log shares it. */
  readonly stdout?: LineSink | undefined
  /** The lowest level that is logged. Default: that of the policy. */
  readonly logLevel?: LogLevel | undefined
  /** True if other processes serve the same listeners. */
  readonly isWorker?: boolean
  /** Returns the page of all processes from that of this one. Default: it is the only one. */
  readonly pageOfAll?: (own: ReadPage) => ReadPage
  /** Where the listener for operators gets its connections. Default: from its own socket. */
  readonly adminConnections?: ConnectionSource
}

export interface PolicyServiceParts {
  readonly gateway: GatewayPart | undefined
  /** Whether the sections `decisionApi` and `admin` of the policy are served. */
  readonly apis: boolean
  /** The settings of the rate limit service, if it is a part. */
  readonly rateLimitService: RlsServerSettings | undefined
}

export interface GatewayPart {
  /** Processes with the same instance have the same name in `Via`. */
  readonly instance: string | undefined
}

export interface PolicyService {
  readonly store: OpenStore
  readonly gateway: RunningGateway | undefined
  readonly rateLimitService: RlsListeners | undefined
  readonly decisionApi: RunningListener | undefined
  readonly admin: RunningListener | undefined
  /** Opens the files of logs by their names again, after a tool has renamed them. */
  reopenLogs(): void
  /** Drains requests and closes everything. */
  close(): Promise<void>
}

export function startPolicyService(options: PolicyServiceOptions): Promise<PolicyService> {
  return startWith(async (lifecycle) => {
    const service = new Service(options, lifecycle, await openTracing(options, lifecycle))
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
  readonly #log: RequestLog
  /** Undefined without the admin API, which serves it. */
  readonly #console: ConsoleFeed | undefined
  readonly #emit: Emit
  readonly #tracing: Tracing | undefined
  #control: ControlRoom | undefined
  #isStarted = false

  constructor(
    options: PolicyServiceOptions,
    lifecycle: Lifecycle,
    traces: StartedTracing | undefined,
  ) {
    this.#options = options
    this.#tracing = traces?.tracing
    this.#lifecycle = lifecycle
    const { admin } = options.config.policy.value.document
    const metrics = admin === undefined ? undefined : new ServiceMetrics()
    this.#metrics = metrics
    const emit = (event: ServiceEvent) => {
      metrics?.observe(event)
      this.#count(event)
      this.#console?.observe(event)
      options.emit(event)
    }
    const { control } = options.config
    if (control !== undefined) lifecycle.add(() => control.plane.close())
    this.#log = this.#openLog(emit)
    const { digest } = this.#log
    const top = hasAdminApi(admin) ? new TopLists({ digest }) : undefined
    this.#top = top
    if (top !== undefined) lifecycle.add(turning(top))
    const meter = traces?.tracing.meter(metrics?.store.meter) ?? metrics?.store.meter
    const onDecision: ChargeListener = (...decided) => this.#console?.onDecision(...decided)
    const listener = top && { onDecision }
    this.#runtime = new PolicyRuntime({ ...options, emit, meter, ...listener }, lifecycle)
    this.#emit = emit
    const runtime = this.#runtime
    const log = this.#log
    runtime.add(
      ({ value }) =>
        () =>
          log.use(value.document),
    )
    if (metrics === undefined) return
    metrics.add(() => log.read())
    if (traces !== undefined) metrics.add(() => traces.families())
    this.#console = top && this.#openConsole(metrics, top)
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
    await this.#runtime.regions?.start()
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

  reopenLogs(): void {
    this.#log.reopen()
  }

  close(): Promise<void> {
    return this.#lifecycle.close()
  }

  /** Closed after everything that writes to it. */
  #openLog(emit: Emit): RequestLog {
    const { config, environment, stdout, isWorker = false, parts, logLevel } = this.#options
    const log = new RequestLog({
      document: config.policy.value.document,
      folder: config.folder,
      readSecret: secretReader(environment, config.folder),
      policyVersion: () => this.#runtime.policy.id,
      level: logLevel ?? config.policy.value.document.log.level,
      hasGateway: parts.gateway !== undefined,
      ...{ environment, emit, stdout, isWorker },
    })
    this.#lifecycle.add(() => log.close())
    return log
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
      policy: { enforcer, isShared: this.store.store.isRemote },
      tracing: this.#tracing,
      failures,
      overload,
      readSecret,
      decisions: this.#log.decisions,
      digest: this.#log.digest,
      accessLog: this.#log.accessLog,
      folder: config.folder,
      metrics: this.#metrics && {
        gateway: this.#metrics.gateway,
        door: this.#metrics.decisions.door('gateway', this.store.store.isRemote),
        idempotency: this.#metrics.idempotency,
      },
      openKeyStore: () => this.store.keyStore(),
      onIdempotency: keyObserver(this.#metrics?.idempotency, this.#emit),
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
      onCall: bothListeners(
        door && callCounter(door, 'counter', this.#console?.onDecision),
        callLogger(this.#log.decisions),
      ),
      traces: this.#tracing && {
        tracing: this.#tracing,
        isShared: this.store.store.isRemote,
      },
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

  async #startDecisionApi(document: PolicyDocument): Promise<void> {
    const api = await openDecisionApi(document, {
      runtime: this.#runtime,
      decisions: this.#log.decisions,
      door: this.#door('decision_api'),
      tracing: this.#tracing,
      isShared: this.store.store.isRemote,
      version: this.#options.version,
      emit: this.#emit,
    })
    if (api === undefined) return
    this.decisionApi = api
    this.#lifecycle.add(() => api.close())
  }

  /** Closed after the others, so that `/status` also responds while requests are drained. */
  async #startAdmin({ admin }: PolicyDocument): Promise<void> {
    if (admin === undefined) return
    const { config, pageOfAll, adminConnections: connections } = this.#options
    const { host = '127.0.0.1', port } = admin.listen
    const own: ReadPage = async () => this.#metrics?.read() ?? []
    const readPage = pageOfAll?.(own) ?? own
    const control = hasAdminApi(admin) ? this.#control : undefined
    refuseOpenAdmin(host, admin.tls !== undefined, control !== undefined)
    const access = adminAccess(admin, this.#runtime.readSecret)
    const listener = await startAdmin({
      ...{ host, port, connections },
      tls: admin.tls && listenerTls(admin.tls, config.folder),
      api: control && {
        context: control.context({ ...this.#adminParts(), sessionSecret: access.bootstrapToken }),
        access,
      },
      metrics: (accept) => metricsResponse(readPage, accept),
      status: () => this.#status(),
      isReady: () => this.#isReady,
      onError: (error) => this.#emit({ type: 'error', error }),
    })
    this.admin = listener
    this.#lifecycle.add(() => {
      if (this.#console !== undefined) endStreams(this.#console)
      return listener.close()
    })
  }

  #openConsole(metrics: ServiceMetrics, top: TopLists): ConsoleFeed {
    const runtime = this.#runtime
    const { control } = this.#options.config
    const feed = new ConsoleFeed({
      ...{ metrics, top, runtime },
      node: control?.plane.place.node ?? nodeName({}),
      targets: () => targetViews(this.gateway?.upstreams() ?? {}),
      state: () => nodeStateOf(this.#status()),
      load: (text) => loadLimits(text, control),
    })
    this.#lifecycle.add(() => feed.close())
    return feed
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
    this.#console?.useControl(opened.store, control?.plane.reportId)
    this.#lifecycle.add(() => opened.close())
  }

  #adminParts() {
    const { version } = this.#options
    const read: TopLists['read'] = (...asked) => {
      return this.#top?.read(...asked) ?? { sinceMs: this.#startedAtMs, total: 0, keys: [] }
    }
    const keys = () => operatedKeys(this.#runtime.document, () => this.store.keyStore())
    const shown = { console: this.#console, digest: this.#log.digest }
    return { version, status: () => this.#status(), top: read, keys, ...shown }
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

  #status(): StatusDocument {
    const { overload, regions } = this.#runtime
    return {
      program: this.#options.version,
      startedAt: new Date(this.#startedAtMs).toISOString(),
      ready: this.#isReady,
      policy: this.#runtime.status(),
      upstreams: this.gateway?.upstreams() ?? {},
      store: { kind: this.store.description, connected: this.store.isConnected() },
      overload: overload.status(),
      ...(regions && { regions: regionsStatus(regions.state()) }),
      ...(this.#control && { control: this.#control.status() }),
    }
  }
}
