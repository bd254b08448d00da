import {
  context,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from '@opentelemetry/api'
import {
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  StackContextManager,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { patient } from '../../../../test/support/patience.ts'
import { startRedis } from '../../../../test/support/servers/redis.ts'
import { until } from '../../../../test/support/servers/until.ts'
import { createLimiter } from '../limiter/create-limiter.ts'
import { fixedWindow, tokenBucket } from '../limits/limits.ts'
import { limiterMetrics } from '../metrics/limiter-metrics.ts'
import { redisStore } from '../stores/redis/redis-store.ts'
import { limiterTraces } from './limiter-traces.ts'

beforeAll(() => {
  context.setGlobalContextManager(new StackContextManager().enable())
})
afterAll(() => context.disable())

function setup() {
  const exporter = new InMemorySpanExporter()
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] })
  const tracer = provider.getTracer('test')
  const traces = limiterTraces({ tracer })
  /** Calls a function in a sampled span; returns its result and the id of the span. */
  const sampled = <T>(call: () => T) => {
    const parent = tracer.startSpan('request')
    const result = context.with(trace.setSpan(ROOT_CONTEXT, parent), call)
    return { result, parent: parent.spanContext() }
  }
  const spans = (name: string) => exporter.getFinishedSpans().filter((span) => span.name === name)
  return { ...traces, tracer, sampled, spans }
}

function idOf(span: ReadableSpan | undefined): string | undefined {
  return span?.spanContext().spanId
}

describe('in memory', () => {
  test('a check has a span with its limit, algorithm and decision', async () => {
    const { meter, sampled, spans } = setup()
    const limit = fixedWindow({ limit: 2, per: '1h' })
    const limiter = createLimiter({ name: 'api', limit, meter })
    const { parent } = sampled(() => limiter.checkSync('ada'))
    const [span] = spans('ratelimit.check')
    expect(span?.kind).toBe(SpanKind.INTERNAL)
    expect(span?.parentSpanContext).toMatchObject({ spanId: parent.spanId })
    expect(span?.attributes).toEqual({
      'tidegate.allowed': true,
      'tidegate.limit.name': 'api',
      'tidegate.limit.algorithm': 'fixedWindow',
      'tidegate.limit.units': 2,
      'tidegate.limit.count': 1,
      'tidegate.used': 1,
      'tidegate.remaining': 1,
      'tidegate.backend': 'memory',
      'tidegate.fallback': false,
    })
  })

  test('a denial is an attribute and not an error', () => {
    const { meter, sampled, spans } = setup()
    const limiter = createLimiter({ limit: fixedWindow({ limit: 1, per: '1h' }), meter })
    for (let call = 0; call < 2; call++) sampled(() => limiter.checkSync('ada'))
    const [, denied] = spans('ratelimit.check')
    expect(denied?.attributes['tidegate.allowed']).toBe(false)
    expect(denied?.status.code).toBe(SpanStatusCode.UNSET)
  })

  test('of several limits, the one that refuses decides', async () => {
    const { meter, sampled, spans } = setup()
    const limits = {
      org: fixedWindow({ limit: 9, per: '1h' }),
      key: tokenBucket({ limit: 1, per: '1h' }),
    }
    const limiter = createLimiter({ limits, meter })
    for (let call = 0; call < 2; call++) {
      await sampled(() => limiter.check({ org: 'o', key: 'k' })).result
    }
    const [allowed, denied] = spans('ratelimit.check')
    expect(allowed?.attributes).toMatchObject({ 'tidegate.limit.name': 'key' })
    expect(denied?.attributes).toMatchObject({
      'tidegate.allowed': false,
      'tidegate.limit.name': 'key',
      'tidegate.limit.algorithm': 'tokenBucket',
      'tidegate.limit.count': 2,
    })
  })

  test('no attribute has the key of a client', () => {
    const { meter, sampled, spans } = setup()
    const limiter = createLimiter({ limit: fixedWindow({ limit: 1, per: '1h' }), meter })
    sampled(() => limiter.checkSync('secret-key'))
    const [span] = spans('ratelimit.check')
    expect(JSON.stringify([span?.name, span?.attributes, span?.events])).not.toContain('secret')
  })

  test('a call that is not sampled, or has no active span, builds nothing', () => {
    const { tracer, spans } = setup()
    let started = 0
    const counting = Object.assign(Object.create(tracer), {
      startSpan() {
        started += 1
        return trace.wrapSpanContext({
          traceId: '1'.repeat(32),
          spanId: '1'.repeat(16),
          traceFlags: 1,
        })
      },
    })
    const { meter } = limiterTraces({ tracer: counting })
    const limiter = createLimiter({ limit: fixedWindow({ limit: 9, per: '1h' }), meter })
    limiter.checkSync('ada')
    const unsampled = trace.wrapSpanContext({
      traceId: '1'.repeat(32),
      spanId: '1'.repeat(16),
      traceFlags: TraceFlags.NONE,
    })
    context.with(trace.setSpan(ROOT_CONTEXT, unsampled), () => limiter.checkSync('ada'))
    expect(started).toBe(0)
    expect(spans('ratelimit.check')).toEqual([])
  })

  test('metrics count beside traces', () => {
    const { tracer } = setup()
    const metrics = limiterMetrics()
    const { meter } = limiterTraces({ tracer, meter: metrics.meter })
    const limiter = createLimiter({ limit: fixedWindow({ limit: 9, per: '1h' }), meter })
    limiter.checkSync('ada')
    const [decisions] = metrics.snapshot()
    expect(decisions?.samples.reduce((sum, { value }) => sum + value, 0)).toBe(1)
  })
})

describe('on Redis', () => {
  async function onRedis() {
    const server = await startRedis()
    onTestFinished(() => server.stop())
    const client = new Redis(server.port, server.host, { maxRetriesPerRequest: 0 })
    client.on('error', () => undefined)
    onTestFinished(() => client.disconnect())
    await until('the client is connected', async () => client.status === 'ready')
    const made = setup()
    const limit = fixedWindow({ limit: 1_000, per: '1h' })
    const limiter = createLimiter({
      name: 'api',
      limit,
      store: redisStore(client),
      meter: made.meter,
      ...patient,
    })
    onTestFinished(() => limiter.close())
    await limiter.ready()
    return { ...made, limiter, server }
  }

  test('the command to the store is a child of the check', async () => {
    const { limiter, sampled, spans } = await onRedis()
    await sampled(() => limiter.check('ada')).result
    const [check] = spans('ratelimit.check')
    const [command] = spans('ratelimit.store')
    expect(check?.attributes).toMatchObject({ 'tidegate.backend': 'store' })
    expect(command?.kind).toBe(SpanKind.CLIENT)
    expect(command?.parentSpanContext?.spanId).toBe(idOf(check))
    expect(command?.attributes).toEqual({ 'db.system.name': 'redis', 'tidegate.batch.size': 1 })
    expect(command?.links).toEqual([])
  })

  test('a batch has a span in each sampled trace, linked to the others', async () => {
    const { limiter, sampled, spans } = await onRedis()
    const keys = Array.from({ length: 40 }, (_, at) => `key-${at % 30}`)
    await Promise.all(keys.map((key) => sampled(() => limiter.check(key)).result))
    const checks = spans('ratelimit.check')
    const commands = spans('ratelimit.store')
    const parents = commands.map(({ parentSpanContext }) => parentSpanContext?.spanId)
    expect(parents.toSorted()).toEqual(checks.map(idOf).toSorted())
    const byId = new Map(commands.map((span) => [idOf(span), span]))
    const linked = (span: ReadableSpan) => span.links.map((link) => link.context.spanId)
    for (const span of commands) {
      const near = [idOf(span), ...linked(span)]
      const all = near.flatMap((id) => [id, ...linked(byId.get(id) as ReadableSpan)])
      expect(new Set(all).size).toBe(span.attributes['tidegate.batch.size'])
    }
    expect(Math.max(...commands.map(({ links }) => links.length))).toBeGreaterThan(1)
  })

  test('spans lie within their parents', async () => {
    const { limiter, sampled, spans } = await onRedis()
    await sampled(() => limiter.check('ada')).result
    const [check] = spans('ratelimit.check')
    const [command] = spans('ratelimit.store')
    const ns = ([seconds = 0, nanos = 0]: readonly number[]) =>
      BigInt(seconds) * 10n ** 9n + BigInt(nanos)
    const [outer, inner] = [check, command].map((span) => {
      return [ns(span?.startTime ?? []), ns(span?.endTime ?? [])] as const
    })
    expect((inner?.[0] ?? 0n) >= (outer?.[0] ?? 1n)).toBe(true)
    expect((inner?.[1] ?? 1n) <= (outer?.[1] ?? 0n)).toBe(true)
  })

  test('a check without the store is a fallback, and the command an error', async () => {
    const { limiter, sampled, spans, server } = await onRedis()
    await server.stop()
    await sampled(() => limiter.check('ada')).result
    const [check] = spans('ratelimit.check')
    expect(check?.attributes).toMatchObject({
      'tidegate.fallback': true,
      'tidegate.fallback_reason': 'unreachable',
      'tidegate.backend': 'open',
    })
    const [command] = spans('ratelimit.store')
    expect(command?.attributes).toMatchObject({ 'error.type': 'store-unreachable' })
    expect(command?.status.code).toBe(SpanStatusCode.ERROR)
  })
})
