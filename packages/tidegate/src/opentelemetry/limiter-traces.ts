/**
 * Traces of limiters: a span `ratelimit.check` for each call, and a child for the command to the
 * store. Pass `meter` to `createLimiter`.
 *
 * Sampling is decided first: a call whose active span is not sampled makes no span and reads no
 * attribute. A call without an active span has no trace that it could be seen in.
 */

import { context, type Span, TraceFlags, type Tracer, trace } from '@opentelemetry/api'
import type { LimiterMeter } from '../limiter/limiter.ts'
import { SpanClock } from './span-clock.ts'
import { type CommandReport, StoreSpans } from './store-spans.ts'
import { TracedStore } from './traced-store.ts'

export interface TraceOptions {
  /** Default: the tracer `tidegate` of the global provider. */
  readonly tracer?: Tracer
  /** Another meter that the limiters have: `limiterMetrics().meter` of `tidegate/metrics`. */
  readonly meter?: LimiterMeter
}

export interface LimiterTraces {
  /** The option `meter` of limiters. Several may share it. */
  readonly meter: LimiterMeter
}

const TRACER = 'tidegate'

export function limiterTraces(options: TraceOptions = {}): LimiterTraces {
  const { tracer = trace.getTracer(TRACER), meter: other } = options
  const clock = new SpanClock()
  const spans = new StoreSpans(tracer, clock)
  const parts = { tracer, clock, spans, parent: sampledParent }
  return {
    meter: {
      observer: (event) => other?.observer(event),
      command(...report: CommandReport) {
        spans.command(...report)
        other?.command(...report)
      },
      queued(charge) {
        spans.queued(charge)
        other?.queued?.(charge)
      },
      metered: (store) => new TracedStore(other?.metered(store) ?? store, parts),
    },
  }
}

/** The active span, if it is sampled. */
function sampledParent(): Span | undefined {
  const span = trace.getSpan(context.active())
  if (span === undefined) return undefined
  return (span.spanContext().traceFlags & TraceFlags.SAMPLED) === 0 ? undefined : span
}
