/** Three limiters on one Redis, in this process, called as a program with OpenTelemetry calls. */

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
import { limiterTraces } from 'tidegate/opentelemetry'
import { redisStore } from 'tidegate/redis'
import type { RedisServer } from '../../../test/support/servers/redis.ts'
import type { Run } from '../../harness/part.ts'
import { OFF, SAMPLED, SHARE, startSink, type TracedSubject, UNSAMPLED } from './subject.ts'

const IN_FLIGHT = 256
const KEYS = 10_000
const DURATION_MS = 500

/** Every call runs in an active span, also without traces, so that only our part differs. */
const spanOf = (traceFlags: number) =>
  trace.setSpan(
    ROOT_CONTEXT,
    trace.wrapSpanContext({ traceId: '1'.repeat(32), spanId: '1'.repeat(16), traceFlags }),
  )

export async function libraryContenders(
  run: Run,
  server: RedisServer,
): Promise<readonly TracedSubject[]> {
  context.setGlobalContextManager(localContexts())
  run.onStop(() => context.disable())
  const sink = await startSink()
  run.onStop(() => sink.stop())
  const exporter = new OTLPTraceExporter({ url: `${sink.url}/v1/traces` })
  const provider = new TracerProvider({ spanProcessors: [new BatchSpanProcessor({ exporter })] })
  run.onStop(() => provider.shutdown())
  const { meter } = limiterTraces({ tracer: provider.getTracer('bench') })
  const limiterOf = (traces: boolean) => {
    const client = new Redis(server.url)
    run.onStop(() => client.disconnect())
    const limit = tokenBucket({ limit: 1_000_000, per: '1d' })
    const options = { limit, store: redisStore(client), deadlineMs: 1_000 }
    const limiter = createLimiter(traces ? { ...options, meter } : options)
    run.onStop(() => limiter.close())
    return limiter
  }
  const subject = (name: string, traces: boolean, share: number): TracedSubject => {
    const limiter = limiterOf(traces)
    return { name, run: () => measure((key) => limiter.check(key), share) }
  }
  return [subject(OFF, false, 0), subject(UNSAMPLED, true, 0), subject(SAMPLED, true, SHARE)]
}

async function measure(check: (key: string) => Promise<unknown>, share: number) {
  const [unsampled, sampled] = [spanOf(TraceFlags.NONE), spanOf(TraceFlags.SAMPLED)]
  const every = share > 0 ? Math.round(1 / share) : Number.POSITIVE_INFINITY
  const own = process.cpuUsage()
  const startMs = performance.now()
  let decisions = 0
  const caller = async () => {
    while (performance.now() - startMs < DURATION_MS) {
      const at = decisions++
      const active = at % every === 0 && share > 0 ? sampled : unsampled
      await context.with(active, check, undefined, `user:${at % KEYS}`)
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, caller))
  const tookMs = performance.now() - startMs
  const { user, system } = process.cpuUsage(own)
  return { perSecond: (decisions / tookMs) * 1_000, cpuUs: (user + system) / decisions }
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
