/**
 * A limiter in a process of its own, so that its compiled code knows only one way to observe. It
 * answers each message, the number of calls to make, with their cost.
 */

import { AsyncLocalStorage } from 'node:async_hooks'
import {
  type Context,
  type ContextManager,
  context,
  ROOT_CONTEXT,
  TraceFlags,
  trace,
} from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import { Redis } from 'ioredis'
import { createLimiter, tokenBucket } from 'tidegate'
import { limiterMetrics } from 'tidegate/metrics'
import { limiterTraces } from 'tidegate/opentelemetry'
import { redisStore } from 'tidegate/redis'
import type { LimiterSettings } from './limiters.ts'
import type { Cost } from './overhead.ts'

const IN_FLIGHT = 256

/**
 * Calls before the first round. All are sampled if some will be: the code of spans runs so rarely
 * at 1 % that it would still be interpreted in most rounds, and take ten times as long.
 */
const WARM_UP_CALLS = 50_000

const settings = JSON.parse(process.argv[2] ?? '') as LimiterSettings
const keys = Array.from({ length: 10_000 }, (_, at) => `user:${at}`)
const keyAt = (at: number) => keys[at % keys.length] as string

const limiter = limiterOf(settings)
process.on('message', (calls: number) => {
  void measure(calls).then((cost) => process.send?.(cost))
})
process.on('disconnect', () => process.exit())
if (settings.sampled !== undefined) {
  context.setGlobalContextManager(localContexts())
  await inFlight(WARM_UP_CALLS, callTraced(settings.sampled > 0 ? 1 : 0))
}
process.send?.('ready')

function limiterOf({ redisUrl, meter, sinkUrl }: LimiterSettings) {
  const limit = tokenBucket({ limit: 1_000_000, per: '1d' })
  const store = redisUrl === undefined ? {} : { store: redisStore(new Redis(redisUrl)) }
  // On a busy machine a late answer would be a decision without the store, which is cheaper.
  const options = { limit, ...store, ...(redisUrl !== undefined && { deadlineMs: 5_000 }) }
  if (meter === 'metrics') return createLimiter({ ...options, meter: limiterMetrics().meter })
  if (meter === undefined) return createLimiter(options)
  const exporter = new OTLPTraceExporter({ url: `${sinkUrl}/v1/traces` })
  const provider = new TracerProvider({ spanProcessors: [new BatchSpanProcessor({ exporter })] })
  return createLimiter({ ...options, ...limiterTraces({ tracer: provider.getTracer('bench') }) })
}

async function measure(calls: number): Promise<Cost> {
  const { redisUrl, sampled } = settings
  const startMs = performance.now()
  const before = process.cpuUsage()
  if (redisUrl === undefined) for (let at = 0; at < calls; at++) limiter.checkSync(keyAt(at))
  else await inFlight(calls, sampled === undefined ? callPlain : callTraced(sampled))
  const { user, system } = process.cpuUsage(before)
  const perSecond = (1_000 * calls) / (performance.now() - startMs)
  return { perSecond, cpuUs: (user + system) / calls }
}

async function inFlight(calls: number, call: (at: number) => Promise<unknown>): Promise<void> {
  let next = 0
  const caller = async () => {
    while (next < calls) await call(next++)
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, caller))
}

function callPlain(at: number): Promise<unknown> {
  return limiter.check(keyAt(at))
}

/** Every call runs in an active span, also without traces, so that only our part differs. */
function callTraced(share: number): (at: number) => Promise<unknown> {
  const [unsampled, sampled] = [TraceFlags.NONE, TraceFlags.SAMPLED].map(spanOf)
  const every = share > 0 ? Math.round(1 / share) : Number.POSITIVE_INFINITY
  const check = (key: string) => limiter.check(key)
  return (at) => {
    const active = share > 0 && at % every === 0 ? sampled : unsampled
    return context.with(active ?? ROOT_CONTEXT, check, undefined, keyAt(at))
  }
}

function spanOf(traceFlags: number): Context {
  const span = { traceId: '1'.repeat(32), spanId: '1'.repeat(16), traceFlags }
  return trace.setSpan(ROOT_CONTEXT, trace.wrapSpanContext(span))
}

/** As the SDK for Node.js has it. */
function localContexts(): ContextManager {
  const storage = new AsyncLocalStorage<Context>()
  const manager: ContextManager = {
    active: () => storage.getStore() ?? ROOT_CONTEXT,
    with: (active, call, self, ...args) =>
      storage.run(active, () => call.apply(self as ThisParameterType<typeof call>, args)),
    bind: (_, target) => target,
    enable: () => manager,
    disable: () => manager,
  }
  return manager
}
