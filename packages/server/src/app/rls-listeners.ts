/** The listeners of the rate limit service: gRPC with health checks, and its pages over HTTP. */

import { listen, type RunningListener } from '../http-api/listener.ts'
import { grpcHandler } from '../rls/grpc-methods.ts'
import { Health } from '../rls/health.ts'
import type { RpcTransport } from '../rls/rpc.ts'
import { type RateLimitService, SHOULD_RATE_LIMIT } from '../rls/service/rate-limit-service.ts'
import type { ResponseTimes } from '../rls/service/response-times.ts'
import type { Stats } from '../rls/service/stats.ts'
import type { RlsServerSettings } from '../rls/settings.ts'
import { listenHttp2 } from '../rls/transport/http2/http2-listener.ts'
import { listenNode } from '../rls/transport/node-transport.ts'
import { debugPages, metricsPages } from '../rls/web/debug-pages.ts'
import type { MetricSources } from '../rls/web/metrics.ts'
import { publicPages } from '../rls/web/public-pages.ts'
import { type Lifecycle, startWith } from './lifecycle.ts'

export interface RlsListeners {
  readonly addresses: {
    readonly grpc: RpcTransport['address']
    readonly http: RunningListener['address'] | undefined
    readonly debug: RunningListener['address'] | undefined
    readonly prometheus: RunningListener['address'] | undefined
  }
  /** Reports unhealthy, drains calls, and closes the listeners. */
  close(): Promise<void>
}

export interface RlsListenerParts {
  readonly settings: RlsServerSettings
  readonly service: RateLimitService
  readonly stats: Stats
  readonly times: ResponseTimes
  /** Whether the service can decide. */
  isReady(): boolean
  /** The page `/rlconfig`. */
  configText(): string
}

export function startRlsListeners(parts: RlsListenerParts): Promise<RlsListeners> {
  return startWith((lifecycle) => start(parts, lifecycle))
}

async function start(parts: RlsListenerParts, lifecycle: Lifecycle): Promise<RlsListeners> {
  const { settings, service, stats, times } = parts
  let transport: RpcTransport | undefined
  const health = new Health(() => transport !== undefined && parts.isReady())
  const sources = { stats, times, connections: () => transport?.connections ?? 0 }
  const addresses = await startPages(parts, health, sources, lifecycle)
  const methods = new Map([[SHOULD_RATE_LIMIT, service.shouldRateLimit], ...health.methods])
  const listenGrpc = settings.transport === 'own' ? listenHttp2 : listenNode
  const grpc = await listenGrpc(settings.grpc, { ...settings, handler: grpcHandler(methods) })
  transport = grpc
  lifecycle.add(() => grpc.drain(settings.drainMs))
  lifecycle.add(() => pause(settings.unhealthyMs))
  lifecycle.add(() => health.stop())
  return { addresses: { grpc: grpc.address, ...addresses }, close: () => lifecycle.close() }
}

async function startPages(
  { settings, service, configText }: RlsListenerParts,
  health: Health,
  sources: MetricSources,
  lifecycle: Lifecycle,
): Promise<Omit<RlsListeners['addresses'], 'grpc'>> {
  const start = async (
    handler: Parameters<typeof listen>[0],
    address: Parameters<typeof listen>[1],
  ) => {
    const listener = await listen(handler, address)
    lifecycle.add(() => listener.close())
    return listener.address
  }
  const { http, debug, prometheus } = settings
  return {
    http: http && (await start(publicPages(service, health), http)),
    debug: debug && (await start(debugPages({ configText, sources }), debug)),
    prometheus: prometheus && (await start(metricsPages(sources, prometheus.path), prometheus)),
  }
}

/** Such as `127.0.0.1:8081`, or the path of a Unix socket. */
export function addressText(address: RpcTransport['address']): string {
  return 'path' in address ? address.path : `${address.host}:${address.port}`
}

function pause(waitMs: number): Promise<void> | undefined {
  return waitMs > 0 ? new Promise((resolve) => setTimeout(resolve, waitMs)) : undefined
}
