import type { Tracer } from '@opentelemetry/api'
import {
  InMemorySpanExporter,
  NoopSpanProcessor,
  type ReadableSpan,
  SimpleSpanProcessor,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import { describe, expect, test } from 'vitest'
import { Sampler, type SamplerSettings } from './sampler.ts'
import { SpanQueue } from './span-queue.ts'
import { TraceIds } from './trace-ids.ts'
import { Tracing } from './tracing.ts'

const parent = {
  traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
  spanId: '00f067aa0ba902b7',
  isSampled: true,
}
const traceparent = `00-${parent.traceId}-${parent.spanId}-01`

function tracingWith(sampler: SamplerSettings) {
  const exporter = new InMemorySpanExporter()
  const ids = new TraceIds()
  const spanProcessors = [new SimpleSpanProcessor({ exporter })]
  const tracer = new TracerProvider({ idGenerator: ids, spanProcessors }).getTracer('test')
  const tracing = new Tracing({ tracer, ids, sampler: new Sampler(sampler) })
  return { tracing, spans: () => exporter.getFinishedSpans() }
}

describe('a sampler', () => {
  test('takes the share of traces that it is told to', () => {
    const sampler = new Sampler({ isParentBased: true, ratio: 0.1 })
    const ids = new TraceIds()
    let sampled = 0
    for (let at = 0; at < 20_000; at++) if (sampler.ofRoot(ids.generateTraceId())) sampled += 1
    // 2,000, with a standard deviation of 42.
    expect(Math.abs(sampled - 2_000)).toBeLessThan(300)
  })

  test('decides by the last 56 bits of the trace id', () => {
    const half = new Sampler({ isParentBased: false, ratio: 0.5 })
    expect(half.ofRoot(`${'f'.repeat(18)}7${'f'.repeat(13)}`)).toBe(false)
    expect(half.ofRoot(`${'0'.repeat(18)}8${'0'.repeat(13)}`)).toBe(true)
  })

  test.for<[boolean, number, boolean, boolean]>([
    // Parent-based, share, trusted, sampled.
    [true, 0, true, true],
    [false, 0, true, false],
    [true, 0, false, false],
    [true, 1, false, true],
  ])('parent-based %s with a share of %s: trusted %s', ([isParentBased, ratio, isTrusted, is]) => {
    const sampler = new Sampler({ isParentBased, ratio })
    expect(sampler.ofChild(parent, isTrusted)).toBe(is)
  })
})

describe('a trace', () => {
  test('that begins here has a new id, which its span keeps', () => {
    const { tracing, spans } = tracingWith({ isParentBased: true, ratio: 1 })
    const begun = tracing.begin(undefined, true)
    const request = tracing.request(begun, undefined, 'GET', {})
    request.end(undefined, {}, false)
    const [span] = spans()
    expect(span?.spanContext().traceId).toBe(begun.traceId)
    expect(span?.parentSpanContext).toBeUndefined()
    expect(request.context).toMatchObject({ traceId: begun.traceId, isSampled: true })
  })

  test('of a caller goes on with its tracestate', () => {
    const { tracing, spans } = tracingWith({ isParentBased: true, ratio: 0 })
    const begun = tracing.begin(traceparent, true)
    tracing.request(begun, 'a=1', 'GET', {}).end('GET /', {}, false)
    const [span] = spans()
    expect(span?.name).toBe('GET /')
    expect(span?.parentSpanContext).toMatchObject({ traceId: parent.traceId, isRemote: true })
    expect(span?.spanContext().traceState?.serialize()).toBe('a=1')
  })

  test('that is not sampled asks for no span', () => {
    const tracer = new Proxy({} as Tracer, {
      get() {
        throw new Error('a tracer was used')
      },
    })
    const sampler = new Sampler({ isParentBased: true, ratio: 0 })
    const tracing = new Tracing({ tracer, ids: new TraceIds(), sampler })
    expect(tracing.begin(undefined, true)).toMatchObject({ isSampled: false, hasParent: false })
    expect(tracing.begin(traceparent, false)).toMatchObject({
      traceId: parent.traceId,
      isSampled: false,
      hasParent: true,
    })
  })

  test('has a check that failed as an error', async () => {
    const { tracing, spans } = tracingWith({ isParentBased: true, ratio: 1 })
    const request = tracing.request(tracing.begin(undefined, true), undefined, 'GET', {})
    const broken = () => Promise.reject(new Error('broken'))
    const outcome = () => ({ outcome: 'allowed', applied: [] })
    await expect(request.check('gateway', true, broken, outcome)).rejects.toThrow('broken')
    expect(spans()[0]).toMatchObject({ name: 'ratelimit.check', status: { code: 2 } })
  })
})

describe('the queue of spans', () => {
  const span = {} as ReadableSpan

  test('drops and counts spans beyond its bound', () => {
    const queue = new SpanQueue({ onContact: () => undefined, spansMax: 2 })
    const processor = queue.bounded(new NoopSpanProcessor())
    for (let at = 0; at < 5; at++) processor.onEnd(span)
    expect([queue.waiting, queue.dropped.queue_full]).toEqual([2, 3])
  })

  test('reports a collector that is away once, and once that it is back', () => {
    const contacts: (string | undefined)[] = []
    const queue = new SpanQueue({ onContact: (problem) => contacts.push(problem) })
    const processor = queue.bounded(new NoopSpanProcessor())
    let code = 1
    const exporter = queue.counted({
      export: (_, done) => done(code === 0 ? { code } : { code, error: new Error('away') }),
      shutdown: async () => undefined,
    })
    for (let at = 0; at < 4; at++) processor.onEnd(span)
    exporter.export([span], () => undefined)
    exporter.export([span], () => undefined)
    code = 0
    exporter.export([span, span], () => undefined)
    expect(contacts).toEqual(['away', undefined])
    expect([queue.exported, queue.dropped.export_failed, queue.waiting]).toEqual([2, 2, 0])
  })
})
