/** Puts the rate limit service together and starts it. */

import { type HttpDoor, openDoor } from '../http-door.ts'
import { Overload, type OverloadEvent } from '../overload/overload.ts'
import { watchLoop } from '../overload/watch-loop.ts'
import { createStore, type OpenStore, type StoreSettings } from '../stores/create-store.ts'
import { collectAlone } from './collect-alone.ts'
import { LiveConfig } from './config/live-config.ts'
import { grpcHandler } from './grpc-methods.ts'
import { Health } from './health.ts'
import { listenHttp2 } from './http2/listener.ts'
import { listenNode } from './node-transport.ts'
import type { RpcTransport } from './rpc.ts'
import { Judge, type JudgeStore } from './service/judge.ts'
import { RateLimitService, SHOULD_RATE_LIMIT } from './service/rate-limit-service.ts'
import { ResponseTimes } from './service/response-times.ts'
import { Stats } from './service/stats.ts'
import { type RlsSettings, rlsDefaults } from './settings.ts'
import { WarmUp } from './warm-up.ts'
import { debugDoor, metricsDoor } from './web/debug-pages.ts'
import { metricsRegistry } from './web/metrics.ts'
import { publicDoor } from './web/public-pages.ts'

export interface RlsEvents {
  /** A configuration was refused; the one before stays in force. */
  onConfigError?(error: Error): void
  onConfigLoaded?(rules: number): void
  onConnectionError?(error: Error): void
  /** Calls are shed from now on, or not any more. */
  onOverload?(event: OverloadEvent): void
  /** What should not happen, and did not stop the service. */
  onError?(error: unknown): void
}

export interface RunningRls {
  readonly addresses: {
    readonly grpc: RpcTransport['address']
    readonly http: HttpDoor['address'] | undefined
    readonly debug: HttpDoor['address'] | undefined
    readonly prometheus: HttpDoor['address'] | undefined
  }
  /** For people: what it listens on and where its counters are. */
  readonly description: string
  /** Becomes unwell, lets calls end, and stops. */
  close(): Promise<void>
}

export type RlsOptions = Partial<RlsSettings> & Pick<RlsSettings, 'configDirectory'>

export async function startRls(options: RlsOptions, events: RlsEvents = {}): Promise<RunningRls> {
  const settings: RlsSettings = { ...rlsDefaults, ...options }
  collectAlone()
  const stats = new Stats()
  const times = new ResponseTimes()
  const stores = openStores(settings, events)
  const warmUps = stores.all.map((store) => new WarmUp(store))
  const perSecond =
    stores.perSecond && settings.perSecondStore
      ? judgeStore(stores.perSecond, settings.perSecondStore)
      : undefined
  const main = judgeStore(stores.main, settings.store)
  const judge = new Judge({ main, perSecond }, settings.charging)
  const onError = (error: unknown) => events.onError?.(error)
  const overload = overloadOf(settings, events)
  const stopWatching = watchLoop(overload)
  const service = new RateLimitService({ judge, stats, times, settings, overload, onError })
  const config = new LiveConfig(settings.configDirectory, settings, {
    onLoaded: (loaded) => {
      stats.configLoadSuccess++
      service.configure(loaded)
      events.onConfigLoaded?.(loaded.rules.length)
    },
    onError: (error) => {
      stats.configLoadError++
      events.onConfigError?.(error)
    },
  })
  const health = new Health(() => {
    const isReady = stores.all.every((store, at) => store.isConnected() && warmUps[at]?.isDone)
    const isConfigured = (config.current?.domains.size ?? 0) > 0
    return isReady && (isConfigured || !settings.needsConfigToBeHealthy)
  })
  const release = async () => {
    stopWatching()
    config.close()
    for (const warmUp of warmUps) warmUp.stop()
    await Promise.all(stores.all.map((store) => store.close()))
  }
  const methods = new Map([[SHOULD_RATE_LIMIT, service.shouldRateLimit], ...health.methods])
  const listen = settings.transport === 'own' ? listenHttp2 : listenNode
  const handler = grpcHandler(methods)
  const transport = await listen(settings.grpc, { ...settings, handler }).catch(async (error) => {
    await release()
    throw error
  })
  const sources = { stats, times, connections: () => transport.connections }
  const parts = { service, health, config, sources }
  const doors = await openDoors(settings, parts).catch(async (error) => {
    await Promise.all([transport.drain(0), release()])
    throw error
  })
  let closing: Promise<void> | undefined
  const close = async () => {
    health.stop()
    if (settings.unwellMs > 0) await pause(settings.unwellMs)
    await transport.drain(settings.drainMs)
    await Promise.all(doors.all.map((door) => door.close()))
    await release()
  }
  return {
    addresses: { grpc: transport.address, ...doors.addresses },
    description: `${addressText(transport.address)}, counters in ${stores.main.description}`,
    close: () => {
      closing ??= close()
      return closing
    },
  }
}

function overloadOf({ overloadDelayMs, callsMax }: RlsSettings, events: RlsEvents): Overload {
  const settings = { delay: overloadDelayMs, requestsMax: callsMax, criticalShare: 0 }
  return new Overload(settings, { observer: (event) => events.onOverload?.(event) })
}

function openStores({ store, perSecondStore, storeDeadlineMs }: RlsSettings, events: RlsEvents) {
  const open = (one: StoreSettings): OpenStore =>
    createStore(one, {
      deadlineMs: storeDeadlineMs,
      onStoreError: 'closed',
      onConnectionError: (error) => events.onConnectionError?.(error),
    })
  const main = open(store)
  const perSecond = perSecondStore === undefined ? undefined : open(perSecondStore)
  return { main, perSecond, all: perSecond === undefined ? [main] : [main, perSecond] }
}

function judgeStore({ store }: OpenStore, { mode }: StoreSettings): JudgeStore {
  return { store, isSpread: mode === 'cluster' }
}

interface DoorParts {
  readonly service: RateLimitService
  readonly health: Health
  readonly config: LiveConfig
  readonly sources: Parameters<typeof metricsRegistry>[0]
}

async function openDoors(settings: RlsSettings, parts: DoorParts) {
  const { service, health, config, sources } = parts
  const registry = metricsRegistry(sources)
  const debugPages = debugDoor({ config: () => config.current, sources, registry })
  const { http, debug, prometheus } = settings
  const httpDoor = http && (await openDoor(publicDoor(service, health), http))
  const debugPort = debug && (await openDoor(debugPages, debug))
  const prometheusPort =
    prometheus && (await openDoor(metricsDoor(registry, prometheus.path), prometheus))
  return {
    all: [httpDoor, debugPort, prometheusPort].filter((door) => door !== undefined),
    addresses: {
      http: httpDoor?.address,
      debug: debugPort?.address,
      prometheus: prometheusPort?.address,
    },
  }
}

function addressText(address: RpcTransport['address']): string {
  return 'path' in address ? address.path : `${address.host}:${address.port}`
}

function pause(waitMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, waitMs))
}
