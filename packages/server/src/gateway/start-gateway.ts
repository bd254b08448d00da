/**
 * The gateway: a listener, stages, and upstreams. What it is told can be replaced while it runs;
 * requests under way keep what they began with.
 */

import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSecureContext } from 'node:tls'
import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import type { Overload } from '../overload/overload.ts'
import type {
  AuthSection,
  GatewaySection,
  LogSection,
  RoutesSection,
  UpstreamSection,
  UpstreamsSection,
} from '../policy/gateway-section.ts'
import type { LimitSection } from '../policy/limits-section.ts'
import type { ReadSecret } from '../policy/secrets.ts'
import { apiKeys } from './auth/api-keys.ts'
import { tokens } from './auth/tokens.ts'
import { LineBudget } from './line-budget.ts'
import type { Certificates } from './listener/create-server.ts'
import { Listener } from './listener/listener.ts'
import type { LivePolicy } from './live-policy.ts'
import { type GatewayRequest, type Handler, pipeline } from './message.ts'
import { OwnedNames, ownedNames } from './owned-names.ts'
import { authenticate } from './stages/authenticate.ts'
import { forward } from './stages/forward.ts'
import { ipLists } from './stages/ip-lists.ts'
import { log } from './stages/log.ts'
import { ownPaths } from './stages/own-paths.ts'
import { rateLimit } from './stages/rate-limit.ts'
import { refuseInvalid } from './stages/refuse-invalid.ts'
import { route } from './stages/route.ts'
import { shedStages } from './stages/shed.ts'
import { transform } from './stages/transform.ts'
import type { TargetTls } from './upstreams/target.ts'
import { Upstream } from './upstreams/upstream.ts'

export interface GatewaySections {
  readonly gateway: GatewaySection
  readonly auth: AuthSection
  readonly upstreams: UpstreamsSection
  readonly routes: RoutesSection
  readonly log: LogSection
  readonly region?: string | undefined
  /** For the names of the header fields that they read; who is limited, the policy says. */
  readonly limits?: readonly LimitSection[]
}

export interface GatewayOptions {
  readonly sections: GatewaySections
  readonly policy: LivePolicy
  /** The controller of this process; its loop is measured elsewhere. */
  readonly overload: Overload
  readonly logger: Logger
  readonly readSecret: ReadSecret
  /** Names of files in the sections are relative to it. */
  readonly folder: string
}

export interface RunningGateway {
  readonly host: string
  readonly port: number
  /** Such as `http://127.0.0.1:8080`. */
  readonly url: string
  readonly isReady: boolean
  /** Routes, upstreams, authentication, log and certificates; throws and changes nothing if bad. */
  reload(sections: GatewaySections): void
  /** Not ready any more; then no new connections; then, when all requests have ended, nothing. */
  close(): Promise<void>
}

export async function startGateway(options: GatewayOptions): Promise<RunningGateway> {
  const gateway = new Gateway(options)
  await gateway.listen()
  return gateway
}

class Gateway implements RunningGateway {
  readonly #options: GatewayOptions
  readonly #section: GatewaySection
  readonly #listener: Listener
  readonly #lines: LineBudget
  #upstreams: ReadonlyMap<string, OpenUpstream> = new Map()
  #handler: Handler = () => {
    throw new Error('the gateway is not set up yet')
  }
  #isUrgent: (request: GatewayRequest) => boolean = () => false
  #owned = new OwnedNames([])
  readonly #retired = new Set<Upstream>()
  #isReady = false
  #closed: Promise<void> | undefined

  constructor(options: GatewayOptions) {
    this.#options = options
    this.#section = options.sections.gateway
    this.#lines = new LineBudget(options.logger)
    this.#useSections(options.sections)
    const { tls } = this.#section
    this.#listener = new Listener({
      section: this.#section,
      certificates: tls && readCertificates(tls, options.folder),
      handle: (request) => this.#handler(request),
      isUrgent: (request) => this.#isUrgent(request),
      onWait: (waitedMs) => options.overload.noteWait(waitedMs),
      owned: () => this.#owned,
      onError: this.#lines.error,
      onRefused: this.#lines.refusedConnection,
    })
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

  async listen(): Promise<void> {
    await this.#listener.listen()
    this.#isReady = true
  }

  reload(sections: GatewaySections): void {
    const { tls } = sections.gateway
    const certificates = tls && readCertificates(tls, this.#options.folder)
    const before = this.#upstreams
    this.#useSections(sections)
    if (tls !== undefined && certificates !== undefined) {
      this.#listener.useCertificates(certificates, tls)
    }
    const kept = new Set(this.#upstreams.values())
    for (const one of before.values()) if (!kept.has(one)) this.#retire(one.upstream)
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

  /** Requests that have begun with it keep it. */
  #retire(upstream: Upstream): void {
    this.#retired.add(upstream)
    upstream
      .close()
      .catch(this.#lines.error)
      .finally(() => this.#retired.delete(upstream))
  }

  #useSections(sections: GatewaySections): void {
    const { folder, policy, overload, logger, readSecret } = this.#options
    const { gateway, auth, routes } = sections
    const lines = this.#lines
    const node = nodeId(sections.log)
    const authenticators = readAuth(auth, folder, readSecret)
    checkRoutes(routes, sections.upstreams)
    const upstreams = openUpstreams(sections.upstreams, this.#upstreams, folder)
    const byName = new Map([...upstreams].map(([name, { upstream }]) => [name, upstream]))
    const { shed, shedByTier, isCritical } = shedStages({ overload, policy, routes })
    this.#handler = pipeline([
      log({ ...sections.log, logger, lines, nodeId: node, region: sections.region }),
      refuseInvalid(),
      ownPaths({ ...gateway, isReady: () => this.#isReady }),
      shed,
      ipLists(policy),
      authenticate(authenticators),
      shedByTier,
      rateLimit(policy, gateway.headers),
      route(routes, byName),
      transform({ knowsKeys: auth.apiKeys !== undefined }),
      forward(),
    ])
    const isOwn = ({ path }: GatewayRequest) =>
      path === gateway.healthPath || path === gateway.readyPath
    this.#isUrgent = (request) => isOwn(request) || isCritical(request)
    lines.use({ ...sections.log, nodeId: node })
    this.#owned = ownedNames(sections)
    this.#upstreams = upstreams
  }
}

function checkRoutes(routes: RoutesSection, upstreams: UpstreamsSection): void {
  for (const [at, { upstream }] of routes.entries()) {
    if (Object.hasOwn(upstreams, upstream)) continue
    const names = Object.keys(upstreams).join(', ')
    throw new Error(`routes[${at}].upstream: ${upstream} is none of: ${names}`)
  }
}

interface OpenUpstream {
  readonly section: UpstreamSection
  /** What its files held, which may be others under the same names by now. */
  readonly tls: TargetTls | undefined
  readonly upstream: Upstream
}

/** Those that have not changed keep their connections and what is known of their health. */
function openUpstreams(
  sections: UpstreamsSection,
  open: ReadonlyMap<string, OpenUpstream>,
  folder: string,
): Map<string, OpenUpstream> {
  // Files first: what cannot be read must be found out before anything is opened.
  const entries = Object.entries(sections).map(
    ([name, section]) => [name, section, readTargetTls(name, section.tls, folder)] as const,
  )
  return new Map(
    entries.map(([name, section, tls]) => {
      const known = open.get(name)
      const isSame = isDeepStrictEqual([known?.section, known?.tls], [section, tls])
      if (known !== undefined && isSame) return [name, known]
      return [name, { section, tls, upstream: new Upstream(name, section, tls) }]
    }),
  )
}

function readTargetTls(
  name: string,
  tls: UpstreamSection['tls'],
  folder: string,
): TargetTls | undefined {
  if (tls === undefined) return undefined
  const read = (file: string | undefined) => file && readFileSync(resolve(folder, file))
  const ca = read(tls.ca) || undefined
  const cert = read(tls.cert) || undefined
  const key = read(tls.key) || undefined
  try {
    createSecureContext({ ca, cert, key })
  } catch (error) {
    throw new Error(`upstreams.${name}.tls: the files are no certificates or keys`, {
      cause: error,
    })
  }
  return { ca, cert, key, serverName: tls.serverName }
}

function readCertificates(
  { cert, key, clientCa }: NonNullable<GatewaySection['tls']>,
  folder: string,
): Certificates {
  const read = (file: string) => readFileSync(resolve(folder, file))
  return {
    cert: read(cert),
    key: read(key),
    ca: clientCa === undefined ? undefined : read(clientCa),
  }
}

function readAuth(
  { apiKeys: keys, jwt, certificate }: AuthSection,
  folder: string,
  readSecret: ReadSecret,
) {
  const read = (file: string) => readFileSync(resolve(folder, file), 'utf8')
  return {
    apiKeys:
      keys &&
      apiKeys(read(keys.file), { ...keys, secret: readSecret(keys.secret, 'auth.apiKeys.secret') }),
    tokens: jwt && tokens(jwt, jwt.jwksFile === undefined ? undefined : read(jwt.jwksFile)),
    certificate,
  }
}

function nodeId({ nodeId: id }: LogSection): string {
  return id === 'auto' ? hostname() : id
}
