/** The rate limit service for Envoy, with the directory of Envoy's YAML and its own stores. */

import { randomBytes } from 'node:crypto'
import { resolve } from 'node:path'
import { FileSource } from '../config/file-source.ts'
import type { ConfigSource } from '../config/source.ts'
import type { RunningListener } from '../http-api/listener.ts'
import { ChargeGroups } from '../limits/charging/charge-group.ts'
import { perSecondStore } from '../limits/charging/store-router.ts'
import { DecisionLog } from '../observability/decision-log.ts'
import { type Digest, keyedDigest } from '../observability/digests.ts'
import type { Emit } from '../observability/events.ts'
import { LineBudget } from '../observability/line-budget.ts'
import { ServiceMetrics } from '../observability/metrics/service-metrics.ts'
import { TopLists } from '../observability/top/top-lists.ts'
import type { Tracing } from '../observability/tracing/tracing.ts'
import { Overload } from '../overload/overload.ts'
import { watchLoop } from '../overload/watch-loop.ts'
import { bundleLoader } from '../rls/config/config-bundle.ts'
import { rlsConfigReader, warmUpDecoder } from '../rls/config/config-files.ts'
import type { RlsConfig } from '../rls/config/rls-config.ts'
import { type CallListener, RateLimitService } from '../rls/service/rate-limit-service.ts'
import { ResponseTimes } from '../rls/service/response-times.ts'
import { Stats } from '../rls/service/stats.ts'
import { type RlsSettings, rlsDefaults } from '../rls/settings.ts'
import { configText } from '../rls/web/debug-pages.ts'
import { createStore, type OpenStore, type StoreSettings } from '../stores/create-store.ts'
import { ControlPlane, nodeName } from './control-plane.ts'
import { ControlRoom } from './control-room.ts'
import {
  bothListeners,
  callCounter,
  descriptorCounter,
  descriptorText,
  turning,
} from './decisions/decision-listeners.ts'
import type { Environment } from './environment.ts'
import { openEtcd } from './etcd-access.ts'
import { type Lifecycle, startWith } from './lifecycle.ts'
import { callLogger } from './logs/decision-lines.ts'
import { openTracing } from './open-tracing.ts'
import { OperatedEnvoy } from './operators/operated-envoy.ts'
import { firstToken, hasCredential, startRlsAdmin } from './operators/rls-admin.ts'
import { addressText, type RlsListeners, startRlsListeners } from './rls-listeners.ts'
import { addEnvoyGauges, metricsResponse } from './service-pages.ts'

export interface RlsService {
  readonly addresses: RlsListeners['addresses'] & {
    readonly admin: RunningListener['address'] | undefined
  }
  /** For people: the address of the listener and the place of the counters. */
  readonly description: string
  /** Reports unhealthy, drains calls, and closes everything. */
  close(): Promise<void>
}

export type RlsOptions = Partial<RlsSettings> &
  Pick<RlsSettings, 'configDirectory'> & {
    /** The version of the program. */
    readonly version?: string
    /** For the settings of traces. Default: empty. */
    readonly environment?: Environment
  }

export function startRls(options: RlsOptions, emit: Emit = () => undefined): Promise<RlsService> {
  const { version = '', environment = {}, ...given } = options
  const settings: RlsSettings = { ...rlsDefaults, ...given }
  return startWith(async (lifecycle) => {
    const traces = await openTracing({ environment, version, emit }, lifecycle)
    return start(settings, { version, emit, lifecycle, tracing: traces?.tracing })
  })
}

interface StartParts {
  readonly version: string
  readonly emit: Emit
  readonly lifecycle: Lifecycle
  readonly tracing?: Tracing | undefined
  /** Undefined without an admin listener, which has their page. */
  readonly metrics?: ServiceMetrics | undefined
}

/** As for a policy: on a busy machine, the start of a worker takes up to seconds. */
const DECODER_MS_MAX = 3_000

/** With the metrics of the admin listener. The other pages have the names of the reference. */
function withMetrics({ admin }: RlsSettings, parts: StartParts): StartParts {
  if (admin === undefined) return parts
  const metrics = new ServiceMetrics()
  const emit: Emit = (event) => {
    metrics.observe(event)
    parts.emit(event)
  }
  return { ...parts, emit, metrics }
}

async function start(settings: RlsSettings, given: StartParts): Promise<RlsService> {
  const parts = withMetrics(settings, given)
  const { emit, lifecycle, tracing, metrics } = parts
  const stats = new Stats()
  const times = new ResponseTimes()
  const stores = openStores(settings, parts)
  const overload = overloadOf(settings, emit)
  lifecycle.add(watchLoop(overload))
  let version: string | null = null
  const digest = keyedDigest(digestSecret(settings))
  const decisions = decisionLog(
    settings,
    new DecisionLog(new LineBudget(emit), digest, () => version),
  )
  const top = topOf(settings, digest, lifecycle)
  const service = new RateLimitService({
    groups: new ChargeGroups(stores.router, settings.charging),
    stats,
    times,
    settings,
    overload,
    onCall: callListener({ settings, metrics, top, stores, decisions }),
    traces: tracing && { tracing, isShared: stores.main.store.isRemote },
    onError: (error) => emit({ type: 'error', error }),
  })
  const decoder = settings.control && warmUpDecoder(DECODER_MS_MAX)
  const control = openControl(settings, decoder)
  if (control !== undefined) lifecycle.add(() => control.close())
  const source =
    control?.source ?? new FileSource(rlsConfigReader(settings.configDirectory, settings))
  lifecycle.add(() => source.close())
  const operated = new OperatedEnvoy({
    ...{ service, stats, settings, stores: stores.router },
    load: control && bundleLoader(settings),
  })
  await followConfig({
    ...{ source, control, operated, stats, emit },
    onVersion: (id) => {
      version = id
    },
  })
  if (metrics !== undefined) {
    addEnvoyGauges({ metrics, overload, stores: stores.all, operated }, given.version, lifecycle)
  }
  // A node that has read no version yet would have the first one late.
  await decoder
  const isReady = () => {
    const isConfigured = (source.current?.value.domains.size ?? 0) > 0
    const hasStores = stores.all.every((store) => store.isReady())
    return hasStores && (isConfigured || !settings.needsConfigToBeHealthy)
  }
  const admin = await startOperators(settings, parts, {
    ...{ control, operated, stores, top, digest, isReady },
  })
  const text = () => configText(source.current?.value)
  const listeners = await startRlsListeners({
    ...{ settings, service, stats, times, isReady, configText: text },
  })
  lifecycle.add(() => listeners.close())
  const addresses = { ...listeners.addresses, admin: admin?.address }
  return {
    addresses,
    description: [
      addressText(addresses.grpc),
      `counters in ${stores.main.description}`,
      ...(addresses.admin === undefined ? [] : [`admin on ${addressText(addresses.admin)}`]),
    ].join(', '),
    close: () => lifecycle.close(),
  }
}

interface ListenerParts {
  readonly settings: RlsSettings
  readonly metrics: ServiceMetrics | undefined
  readonly top: TopLists | undefined
  readonly stores: ReturnType<typeof openStores>
  readonly decisions: DecisionLog
}

/** What counts and logs the calls. */
function callListener({ settings, metrics, top, stores, decisions }: ListenerParts): CallListener {
  const lists = top && descriptorCounter(top, settings.keyPrefix)
  const counted =
    metrics && callCounter(metrics.decisions.door('rls', stores.main.store.isRemote), 'rule')
  return bothListeners(counted, bothListeners(lists, callLogger(decisions)))
}

/** Undefined without the admin API, which is where the lists are read. */
function topOf(
  { admin, keyPrefix }: RlsSettings,
  digest: Digest,
  lifecycle: Lifecycle,
): TopLists | undefined {
  if (admin === undefined || !hasCredential(admin)) return undefined
  const top = new TopLists({ digest, shown: (key) => descriptorText(keyPrefix, key) })
  lifecycle.add(turning(top))
  return top
}

interface OperatorParts {
  readonly control: ControlPlane<RlsConfig> | undefined
  readonly operated: OperatedEnvoy
  readonly stores: ReturnType<typeof openStores>
  readonly top: TopLists | undefined
  readonly digest: Digest
  isReady(): boolean
}

/** Applies overrides, blocks and the switch, and starts the listener that changes them. */
async function startOperators(
  { admin }: RlsSettings,
  { version, emit, lifecycle, metrics }: StartParts,
  { control, operated, stores, top, digest, isReady }: OperatorParts,
): Promise<RunningListener | undefined> {
  if (control === undefined && admin === undefined) return undefined
  const stateFile = admin?.stateFile === undefined ? undefined : resolve(admin.stateFile)
  const room = await ControlRoom.open({
    ...{ plane: control, version, isWorker: false, stateFile, emit, service: operated },
  })
  lifecycle.add(() => room.close())
  if (admin === undefined) return undefined
  const startedAt = new Date().toISOString()
  const status = () => ({
    ...{ program: version, startedAt, ready: isReady(), policy: operated.status() },
    store: { kind: stores.main.description, connected: stores.main.isConnected() },
    control: room.status(),
  })
  const listener = await startRlsAdmin(admin, {
    ...{ room, version, emit, top, digest, status, isReady },
    metrics: (accept) => metricsResponse(async () => metrics?.read() ?? [], accept),
  })
  lifecycle.add(() => listener.close())
  return listener
}

interface ConfigParts {
  readonly source: ConfigSource<RlsConfig>
  readonly control: ControlPlane<RlsConfig> | undefined
  readonly operated: OperatedEnvoy
  readonly stats: Stats
  readonly emit: Emit
  /** Called with the version of each configuration that is applied. */
  onVersion(id: string): void
}

/** Applies the first configuration, if it is valid, and then every change. */
async function followConfig({
  source,
  control,
  operated,
  stats,
  emit,
  onVersion,
}: ConfigParts): Promise<void> {
  let limitsBefore = 0
  const listener: Parameters<typeof source.follow>[0] = {
    onChange({ value, id }) {
      stats.configLoadSuccess++
      operated.useConfig(value, id)
      onVersion(id)
      const limits = value.rules.length
      emit({ type: 'config-applied', version: id, limits, limitsBefore })
      limitsBefore = limits
      control?.applied(id)
      return undefined
    },
    onRefused(problems) {
      stats.configLoadError++
      const messages = problems.map(({ message }) => message)
      emit({ type: 'config-refused', problems: messages })
      operated.refused(messages)
      control?.refused(messages)
    },
  }
  const first = await source.read()
  if (first.ok) listener.onChange(first)
  else listener.onRefused(first.problems)
  control?.start(emit, first.ok ? first.id : '')
  source.follow(listener)
}

/** Opens the etcd of the settings, if they name one. Throws if a file cannot be read. */
function openControl(
  settings: RlsSettings,
  canLoad: Promise<void> | undefined,
): ControlPlane<RlsConfig> | undefined {
  const { control } = settings
  if (control === undefined) return undefined
  const { node, region, stateFile } = control
  const load = bundleLoader(settings)
  return new ControlPlane<RlsConfig>({
    store: openEtcd(control, {}),
    place: { node: nodeName({ node }), region },
    path: resolve(settings.configDirectory),
    stateFile: stateFile === undefined ? undefined : resolve(stateFile),
    canLoad,
    program: 'tidegate rls',
    load: (document) => load(document?.text),
  })
}

/** The stated one, or that of the first token of the admin API, which all nodes share. */
function digestSecret({ log, admin }: RlsSettings): string | Buffer {
  if (log.digestSecret !== undefined) return log.digestSecret
  const token = admin && firstToken(admin)
  return token === undefined ? randomBytes(32) : `digests ${token}`
}

function decisionLog(
  { log, logLevel: level, control }: RlsSettings,
  decisions: DecisionLog,
): DecisionLog {
  decisions.use({ ...log, level, region: control?.region, nodeId: control?.node ?? 'auto' })
  return decisions
}

function overloadOf({ overloadDelayMs, callsMax }: RlsSettings, emit: Emit): Overload {
  const settings = { delay: overloadDelayMs, requestsMax: callsMax, criticalShare: 0 }
  return new Overload(settings, { observer: emit })
}

function openStores(settings: RlsSettings, { emit, lifecycle, tracing, metrics }: StartParts) {
  const meter = tracing?.meter(metrics?.store.meter) ?? metrics?.store.meter
  const { store: mainSettings, perSecondStore: perSecondSettings, storeDeadlineMs } = settings
  const open = (store: string, one: StoreSettings): OpenStore => {
    const opened = createStore(one, {
      deadlineMs: storeDeadlineMs,
      onStoreError: 'closed',
      ...(meter !== undefined && { meter }),
      observer: (event) => emit({ type: 'store', store, event }),
      onConnectionError: (error) => emit({ type: 'store-connection', store, error }),
    })
    lifecycle.add(() => opened.close())
    return opened
  }
  const main = open(perSecondSettings === undefined ? '' : 'main', mainSettings)
  const perSecond = perSecondSettings && open('per-second', perSecondSettings)
  return {
    main,
    all: perSecond === undefined ? [main] : [main, perSecond],
    router: perSecondStore(main.store, perSecond?.store),
  }
}
