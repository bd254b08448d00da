/**
 * The gateway: a listener, stages and upstreams. All but the listener can be replaced while it
 * runs; requests under way keep the configuration that they began with.
 */

import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { IdempotencyEvent, IdempotencyStore } from 'tidegate/idempotency'
import type { ReadSecret } from '../config/secrets.ts'
import type { FailedAttempts } from '../limits/failed-attempts.ts'
import type { DecisionLog } from '../observability/decision-log.ts'
import type { Digest } from '../observability/digests.ts'
import type { LineBudget } from '../observability/line-budget.ts'
import type { AccessLog } from '../observability/lines/access-log.ts'
import type { DoorMetrics } from '../observability/metrics/door-metrics.ts'
import type { GatewayMetrics } from '../observability/metrics/gateway-metrics.ts'
import type { IdempotencyMetrics } from '../observability/metrics/idempotency-metrics.ts'
import type { Tracing } from '../observability/tracing/tracing.ts'
import type { RefusedConnection } from '../observability/traffic-events.ts'
import type { Overload } from '../overload/overload.ts'
import type { KeyTable } from '../policy/api-keys/key-table.ts'
import type { AuthSection } from '../policy/schema/auth-section.ts'
import type { CorsSection } from '../policy/schema/cors-section.ts'
import type { IdempotencySection } from '../policy/schema/idempotency/idempotency-section.ts'
import type { LimitSection } from '../policy/schema/limits-section.ts'
import type { GatewaySection } from '../policy/schema/listener-section.ts'
import type { RoutesSection } from '../policy/schema/routes-section.ts'
import type { UpstreamsSection } from '../policy/schema/upstreams-section.ts'
import { apiKeys } from './auth/api-keys.ts'
import { tokens } from './auth/tokens.ts'
import { Listener } from './clients/listener.ts'
import type { LivePolicy } from './live-policy.ts'
import type { GatewayRequest } from './message.ts'
import { type Handler, pipeline } from './pipeline.ts'
import { readCertificates, readTargetTls, readText } from './read-files.ts'
import { ReservedHeaders, reservedHeaders } from './reserved-headers.ts'
import { authenticate } from './stages/authenticate.ts'
import { cors } from './stages/cors.ts'
import { forward } from './stages/forward.ts'
import { idempotencyStages } from './stages/idempotency/idempotency.ts'
import { ipLists } from './stages/ip-lists.ts'
import { log } from './stages/log.ts'
import { measure } from './stages/measure.ts'
import { accessLog } from './stages/outer/access-log.ts'
import { identify } from './stages/outer/request-id.ts'
import { ownPaths } from './stages/own-paths.ts'
import { boundPreflights, markPreflights } from './stages/preflights.ts'
import { rateLimit } from './stages/rate-limit.ts'
import { refuseInvalid } from './stages/refuse-invalid.ts'
import { refusedResponses } from './stages/refused-responses.ts'
import { route } from './stages/route.ts'
import { shedStages } from './stages/shed.ts'
import { transform } from './stages/transform.ts'
import { refuseLoops } from './stages/via.ts'
import { traced } from './tracing/trace.ts'
import { clientFactory } from './upstreams/client-factory.ts'
import { type OpenUpstream, openUpstreams } from './upstreams/open-upstreams.ts'
import type { Target } from './upstreams/target.ts'
import { Upstream, type UpstreamObserver } from './upstreams/upstream.ts'
import type { CreateClient } from './upstreams/upstream-client.ts'

export interface GatewaySections {
  readonly gateway: GatewaySection
  readonly auth: AuthSection
  readonly upstreams: UpstreamsSection
  readonly routes: RoutesSection
  readonly cors?: CorsSection | undefined
  /** Only for the names of the header fields that limits read. */
  readonly limits?: readonly LimitSection[]
  readonly idempotency?: IdempotencySection | undefined
}

export interface GatewayOptions {
  readonly sections: GatewaySections
  /** The file of `auth.apiKeys`, if there is one. */
  readonly keyTable: KeyTable | undefined
  readonly policy: LivePolicy
  /** The failed authentication of clients. */
  readonly failures: FailedAttempts
  /** The controller of this process, which measures the event loop elsewhere. */
  readonly overload: Overload
  /** Logs requests. Its settings are applied elsewhere, because other doors share it. */
  readonly decisions: DecisionLog
  readonly accessLog?: AccessLog | undefined
  /** Makes the digests of clients whose connections are refused. */
  readonly digest: Digest
  /** Counts requests and decisions; without it, nothing is counted. */
  readonly metrics?: GatewayCounters | undefined
  /** Opens the store of idempotency keys. Without it, their section has no effect. */
  readonly openKeyStore?: (() => IdempotencyStore) | undefined
  readonly onIdempotency?: ((event: IdempotencyEvent) => void) | undefined
  /** Without it, trace context passes unread. */
  readonly tracing?: Tracing | undefined
  readonly readSecret: ReadSecret
  /** File names in the sections are relative to it. */
  readonly folder: string
  /** The name in `Via`, which processes can share. Default: a random one. */
  readonly instance?: string | undefined
}

/** Where a gateway counts. */
export interface GatewayCounters {
  readonly gateway: GatewayMetrics
  readonly door: DoorMetrics
  readonly idempotency: IdempotencyMetrics
}

export interface RunningGateway {
  readonly host: string
  readonly port: number
  /** Such as `http://127.0.0.1:8080`. */
  readonly url: string
  readonly isReady: boolean
  /** Open connections of clients. */
  readonly connections: number
  /** The targets of each upstream, for operators. */
  upstreams(): Readonly<Record<string, readonly ReturnType<Target['status']>[]>>
  /**
   * Compiles everything but the listener; throws if a section cannot be used. Nothing changes until
   * the returned function is called, which does not throw.
   */
  prepare(sections: GatewaySections, keyTable: KeyTable | undefined): () => void
  /** Reports not ready, then accepts no connections, and resolves when all requests have ended. */
  close(): Promise<void>
}

export async function startGateway(options: GatewayOptions): Promise<RunningGateway> {
  const { transport } = options.sections.gateway
  const gateway = new Gateway(options, await clientFactory(transport))
  await gateway.listen()
  return gateway
}

class Gateway implements RunningGateway {
  readonly #options: GatewayOptions
  readonly #section: GatewaySection
  readonly #listener: Listener
  readonly #lines: LineBudget
  readonly #instance: string
  readonly #createClient: CreateClient
  #upstreams: ReadonlyMap<string, OpenUpstream> = new Map()
  #handler: Handler = () => {
    throw new Error('the gateway is not set up yet')
  }
  #isUrgent: (request: GatewayRequest) => boolean = () => false
  #reserved = new ReservedHeaders([])
  readonly #retired = new Set<Upstream>()
  #isReady = false
  #closed: Promise<void> | undefined

  constructor(options: GatewayOptions, createClient: CreateClient) {
    this.#options = options
    this.#createClient = createClient
    this.#section = options.sections.gateway
    this.#lines = options.decisions.lines
    this.#instance = options.instance ?? newInstance()
    this.#compile(options.sections, options.keyTable)()
    const { tls } = this.#section
    this.#listener = new Listener({
      section: this.#section,
      certificates: tls && readCertificates(tls, options.folder),
      handle: (request) => this.#handler(request),
      isUrgent: (request) => this.#isUrgent(request),
      onWait: (waitedMs) => options.overload.noteWait(waitedMs),
      reserved: () => this.#reserved,
      onError: this.#onError,
      onRefused: (reason, client) => {
        if (this.#lines.mayWrite('warn')) this.#logRefused(reason, client)
        options.metrics?.gateway.refusedConnection(reason)
      },
    })
  }

  readonly #onError = (error: unknown, requestId?: string): void => {
    const id = requestId === undefined ? undefined : { requestId }
    this.#lines.emit('error', { type: 'gateway-error', error, ...id })
    this.#options.metrics?.gateway.failed()
  }

  #logRefused(reason: RefusedConnection, client: string): void {
    const { nodeId } = this.#lines
    const digest = this.#options.digest(client)
    this.#lines.emitCounted({ type: 'connection-refused', client: digest, reason, nodeId })
  }

  get connections(): number {
    return this.#listener.connections
  }

  get host(): string {
    return this.#listener.address.address
  }

  get port(): number {
    return this.#listener.address.port
  }

  get url(): string {
    const { address, family } = this.#listener.address
    const isAny = address === '::' || address === '0.0.0.0'
    const host = isAny ? 'localhost' : family === 'IPv6' ? `[${address}]` : address
    return `${this.#section.tls === undefined ? 'http' : 'https'}://${host}:${this.port}`
  }

  get isReady(): boolean {
    return this.#isReady
  }

  upstreams(): ReturnType<RunningGateway['upstreams']> {
    const entries = [...this.#upstreams].map(([name, { upstream }]) => {
      return [name, upstream.targets.map((target) => target.status())] as const
    })
    return Object.fromEntries(entries)
  }

  async listen(): Promise<void> {
    await this.#listener.listen()
    this.#isReady = true
  }

  prepare(sections: GatewaySections, keyTable: KeyTable | undefined): () => void {
    const { tls } = sections.gateway
    const certificates = tls && readCertificates(tls, this.#options.folder)
    const swap = this.#compile(sections, keyTable)
    return () => {
      const before = this.#upstreams
      swap()
      if (tls !== undefined && certificates !== undefined) {
        this.#listener.useCertificates(certificates, tls)
      }
      const kept = new Set(this.#upstreams.values())
      for (const one of before.values()) if (!kept.has(one)) this.#retire(one.upstream)
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#drain()
    return this.#closed
  }

  async #drain(): Promise<void> {
    const { drain, unready } = this.#section.timeouts
    this.#isReady = false
    this.#listener.startDraining()
    await sleep(Math.min(unready, drain))
    await this.#listener.close(drain)
    for (const { upstream } of this.#upstreams.values()) upstream.destroy()
    for (const upstream of this.#retired) upstream.destroy()
  }

  /** Closes an upstream when the requests that use it have ended. */
  #retire(upstream: Upstream): void {
    this.#retired.add(upstream)
    upstream
      .close()
      .catch(this.#onError)
      .finally(() => this.#retired.delete(upstream))
  }

  #compile(sections: GatewaySections, keyTable: KeyTable | undefined): () => void {
    const { folder, policy, failures, overload, decisions, readSecret, metrics } = this.#options
    const { tracing } = this.#options
    const { gateway, auth, routes } = sections
    const lines = this.#lines
    const via = gateway.via === 'auto' ? `tidegate-${this.#instance}` : gateway.via
    const authenticators = readAuth(auth, keyTable, folder, readSecret)
    checkRoutes(routes, sections.upstreams)
    const onTarget: UpstreamObserver = (upstream, target, event) => {
      const { nodeId } = lines
      lines.emit('warn', { type: 'target', upstream, target, change: event, nodeId })
      metrics?.gateway.target(upstream, event.type)
    }
    const upstreams = openUpstreams(
      sections.upstreams,
      this.#upstreams,
      (name, tls) => readTargetTls(name, tls, folder),
      (name, section, tls) => new Upstream(name, section, tls, this.#createClient, onTarget),
    )
    const byName = new Map([...upstreams].map(([name, { upstream }]) => [name, upstream]))
    const { shed, shedByTier, isCritical } = shedStages({ overload, policy, routes })
    const { keysBeforeLimits, keysAfterLimits, core } = idempotencyStages({
      section: sections.idempotency,
      openStore: this.#options.openKeyStore,
      ipv6Prefix: gateway.ipv6Prefix,
      readSecret,
      observer: this.#options.onIdempotency,
    })
    const refusedResponse = refusedResponses(gateway.headers, gateway.degradedHeaders)
    const isOwn = ({ path }: GatewayRequest) =>
      path === gateway.healthPath || path === gateway.readyPath
    const { accessLog: requests } = this.#options
    const handler = pipeline([
      ...(tracing === undefined ? [] : [traced(tracing)]),
      ...(requests === undefined ? [] : [accessLog(requests, isOwn)]),
      identify(gateway.requestId),
      log(decisions, metrics && measure(metrics.gateway)),
      markPreflights(auth.apiKeys?.header ?? 'x-api-key'),
      cors(sections.cors, routes),
      refuseInvalid(),
      refuseLoops(via),
      ownPaths({ ...gateway, isReady: () => this.#isReady }),
      shed,
      ipLists(policy),
      boundPreflights(gateway.preflightsPerSecondMax),
      authenticate({ ...authenticators, failures, refusedResponse }),
      shedByTier,
      keysBeforeLimits,
      rateLimit(policy, gateway, refusedResponse, metrics?.door),
      keysAfterLimits,
      route(routes, byName),
      transform({ knowsKeys: auth.apiKeys !== undefined, via }),
      forward(),
    ])
    const reserved = reservedHeaders(sections)
    return () => {
      this.#handler = handler
      this.#isUrgent = (request) => isOwn(request) || isCritical(request)
      this.#reserved = reserved
      this.#upstreams = upstreams
      metrics?.idempotency.follow(core && (() => core.inFlight))
    }
  }
}

/** A name that no other gateway on the way of a request has: 48 random bits. */
function newInstance(): string {
  return randomBytes(6).toString('hex')
}

function checkRoutes(routes: RoutesSection, upstreams: UpstreamsSection): void {
  for (const [at, { upstream }] of routes.entries()) {
    if (Object.hasOwn(upstreams, upstream)) continue
    const names = Object.keys(upstreams).join(', ')
    throw new Error(`routes[${at}].upstream: ${upstream} is not one of: ${names}`)
  }
}

function readAuth(
  { apiKeys: keys, jwt, certificate }: AuthSection,
  keyTable: KeyTable | undefined,
  folder: string,
  readSecret: ReadSecret,
) {
  if (keys !== undefined && keyTable === undefined)
    throw new Error('auth.apiKeys: the file was not read')
  return {
    apiKeys:
      keys &&
      keyTable &&
      apiKeys(keyTable, { ...keys, secret: readSecret(keys.secret, 'auth.apiKeys.secret') }),
    tokens: jwt && tokens(jwt, jwt.jwksFile && readText(jwt.jwksFile, folder)),
    certificate,
  }
}
