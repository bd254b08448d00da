/** Starts the SDK of OpenTelemetry and its exporter. Loaded only if tracing is on. */

import { hostname } from 'node:os'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  AlwaysOnSampler,
  BatchSpanProcessor,
  type SpanProcessor,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import { counterFamily, gauge, type MetricFamily } from 'tidegate/metrics'
import type { Emit } from '../events.ts'
import { Sampler } from './sampler.ts'
import { dropReasons, SpanQueue } from './span-queue.ts'
import { TraceIds } from './trace-ids.ts'
import { Tracing } from './tracing.ts'
import type { TracingSettings } from './tracing-settings.ts'

export interface StartTracingOptions {
  readonly settings: TracingSettings
  /** The version of the program. */
  readonly version: string
  readonly emit: Emit
  /** For tests: receives the spans instead of the exporter. */
  readonly processor?: SpanProcessor
}

export interface StartedTracing {
  readonly tracing: Tracing
  /** The metrics of the export. */
  families(): readonly MetricFamily[]
  /** Sends the spans that wait, for at most `CLOSE_MS_MAX`. */
  close(): Promise<void>
}

/** A collector takes milliseconds; a process that stops must not wait for one that is away. */
const CLOSE_MS_MAX = 2_000

/** Half the default of the SDK, so that traces of an incident are seen sooner. */
const DELAY_MS = 2_500

/** Writing a batch stops the event loop for about 5 µs per span. */
const BATCH_MAX = 256

const ATTRIBUTE_LENGTH_MAX = 512

export function startTracing(options: StartTracingOptions): StartedTracing {
  const { settings, version, emit } = options
  const { url, headers, timeoutMs } = settings
  const queue = new SpanQueue({
    onContact: (problem) => emit({ type: 'trace-export', url, problem }),
  })
  const exporter = queue.counted(
    new OTLPTraceExporter({ url, headers: { ...headers }, timeoutMillis: timeoutMs }),
  )
  const batches = new BatchSpanProcessor({
    exporter,
    maxQueueSize: Number.MAX_SAFE_INTEGER,
    maxExportBatchSize: BATCH_MAX,
    scheduledDelayMillis: DELAY_MS,
    exportTimeoutMillis: timeoutMs + 1_000,
  })
  const ids = new TraceIds()
  const provider = new TracerProvider({
    // The sampler has decided when a span is made.
    sampler: new AlwaysOnSampler(),
    idGenerator: ids,
    spanLimits: { attributeValueLengthLimit: ATTRIBUTE_LENGTH_MAX },
    resource: resourceFromAttributes({
      'service.version': version,
      'service.instance.id': `${hostname()}-${process.pid}`,
      'host.name': hostname(),
      'process.pid': process.pid,
      ...settings.resource,
    }),
    spanProcessors: [options.processor ?? queue.bounded(batches)],
  })
  const tracer = provider.getTracer('tidegate', version)
  return {
    tracing: new Tracing({ tracer, ids, sampler: new Sampler(settings.sampler) }),
    families: () => familiesOf(queue),
    close: () => within(CLOSE_MS_MAX, provider.shutdown()),
  }
}

function familiesOf({ exported, dropped, waiting }: SpanQueue): readonly MetricFamily[] {
  const sent = counterFamily({ name: 'tidegate_spans_exported_total', help: 'Spans sent.' })
  sent.of().value = exported
  const lost = counterFamily({
    name: 'tidegate_spans_dropped_total',
    help: 'Spans that were dropped because the collector was away or too slow.',
    labels: ['reason'],
  })
  for (const reason of dropReasons) lost.of(reason).value = dropped[reason]
  const help = 'Spans that wait to be sent.'
  return [sent.read(), lost.read(), gauge('tidegate_spans_waiting', help, waiting)]
}

/** Resolves when the promise settles, or after `timeMs`. */
async function within(timeMs: number, promise: Promise<unknown>): Promise<void> {
  const { promise: timeIsUp, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, timeMs)
  await Promise.race([promise.catch(() => undefined), timeIsUp])
  clearTimeout(timer)
}
