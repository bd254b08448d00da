/**
 * Traces of a service. `begin` finds the trace of a request and decides whether it is sampled;
 * only a sampled request has spans. Spans are handed on explicitly, without a context that the
 * runtime would have to keep for every request.
 *
 * The doors use its types only. app/ loads it together with the SDK if tracing is on.
 */

import {
  type Attributes,
  type Context,
  createTraceState,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import type { AppliedLimit, MaybePromise, Meter } from 'tidegate'
import { checkAttributes, SpanClock, StoreSpans } from 'tidegate/opentelemetry'
import { parseTraceparent, type TraceContext } from '../trace-context.ts'
import type { Sampler } from './sampler.ts'
import { serverAttributes } from './span-attributes.ts'
import type { TraceIds } from './trace-ids.ts'

/** The trace of a request before it has a span. */
export interface BegunTrace extends TraceContext {
  /** True if a caller began it; `spanId` is then the caller's. */
  readonly hasParent: boolean
}

/** A decision as its span shows it. */
export interface CheckOutcome {
  /** As the metrics name it: allowed, denied, unavailable, unauthenticated, blocked. */
  readonly outcome: string
  readonly applied: readonly AppliedLimit[]
}

/** Calls a function; charges that it asks for belong to a check. */
export type Within = <T>(charge: () => T) => T

export interface TracingParts {
  readonly tracer: Tracer
  readonly ids: TraceIds
  readonly sampler: Sampler
}

export class Tracing {
  readonly #parts: TracingParts
  readonly #clock = new SpanClock()
  readonly #stores: StoreSpans

  constructor(parts: TracingParts) {
    this.#parts = parts
    this.#stores = new StoreSpans(parts.tracer, this.#clock)
  }

  /** The meter of a store, which also gets the commands of sampled requests. */
  meter(other: Meter | undefined): Meter {
    const stores = this.#stores
    return {
      observer: (event) => other?.observer(event),
      command(...report) {
        stores.command(...report)
        other?.command(...report)
      },
      queued: (charge) => stores.queued(charge),
    }
  }

  /** `isTrusted` is true if the caller may decide that a request is sampled. */
  begin(traceparent: string | undefined, isTrusted: boolean): BegunTrace {
    const { ids, sampler } = this.#parts
    const parent = traceparent === undefined ? undefined : parseTraceparent(traceparent)
    if (parent !== undefined) {
      const isSampled = sampler.ofChild(parent, isTrusted)
      return { traceId: parent.traceId, spanId: parent.spanId, isSampled, hasParent: true }
    }
    const traceId = ids.generateTraceId()
    const spanId = ids.generateSpanId()
    return { traceId, spanId, isSampled: sampler.ofRoot(traceId), hasParent: false }
  }

  /** Starts the span of a sampled request. */
  request(
    begun: BegunTrace,
    tracestate: string | undefined,
    name: string,
    attributes: Attributes,
  ): TracedRequest {
    const { tracer, ids } = this.#parts
    const options = { kind: SpanKind.SERVER, startTime: this.#clock.now(), attributes }
    if (!begun.hasParent) ids.presetTraceId(begun.traceId)
    const span = tracer.startSpan(name, options, contextOf(begun, tracestate))
    return new TracedRequest(span, tracestate, { tracer, clock: this.#clock, stores: this.#stores })
  }
}

function contextOf(begun: BegunTrace, tracestate: string | undefined): Context {
  if (!begun.hasParent) return ROOT_CONTEXT
  const { traceId, spanId } = begun
  return trace.setSpanContext(ROOT_CONTEXT, {
    ...{ traceId, spanId, traceFlags: TraceFlags.SAMPLED, isRemote: true },
    ...(tracestate !== undefined && { traceState: createTraceState(tracestate) }),
  })
}

interface SpanParts {
  readonly tracer: Tracer
  readonly clock: SpanClock
  readonly stores: StoreSpans
}

/** The span of a request, and those below it. */
export class TracedRequest {
  readonly #span: Span
  readonly #tracestate: string | undefined
  readonly #parts: SpanParts

  constructor(span: Span, tracestate: string | undefined, parts: SpanParts) {
    this.#span = span
    this.#tracestate = tracestate
    this.#parts = parts
  }

  get traceId(): string {
    return this.#span.spanContext().traceId
  }

  get context(): TraceContext {
    return contextOfSpan(this.#span, this.#tracestate)
  }

  /** Decides with a span `ratelimit.check`. `isShared`: the store is outside this process. */
  check<T>(
    door: string,
    isShared: boolean,
    decide: (within: Within) => MaybePromise<T>,
    outcomeOf: (found: T) => CheckOutcome,
  ): MaybePromise<T> {
    const { clock, stores } = this.#parts
    const span = this.#child('ratelimit.check', SpanKind.INTERNAL, {
      [serverAttributes.door]: door,
    })
    const check = stores.begin(span)
    const end = (found: T): T => {
      check.done()
      const { outcome, applied } = outcomeOf(found)
      const attributes = { ...checkAttributes(applied, isShared) }
      // A block or a missing key refuses without a limit.
      if (outcome !== 'allowed') attributes['tidegate.allowed'] = false
      span.setAttributes({ ...attributes, [serverAttributes.outcome]: outcome })
      if (outcome === 'unavailable') span.setStatus({ code: SpanStatusCode.ERROR })
      span.end(clock.now())
      return found
    }
    const fail = (error: unknown): never => {
      check.done()
      span.setStatus({ code: SpanStatusCode.ERROR })
      span.end(clock.now())
      throw error
    }
    try {
      const found = check.run(() => decide((charge) => check.run(charge)))
      return found instanceof Promise ? found.then(end, fail) : end(found)
    } catch (error) {
      return fail(error)
    }
  }

  /** Starts the span of a call to another server. */
  call(name: string, attributes: Attributes): TracedCall {
    const span = this.#child(name, SpanKind.CLIENT, attributes)
    return new TracedCall(span, this.#tracestate, this.#parts.clock)
  }

  /** Ends the span of the request. */
  end(name: string | undefined, attributes: Attributes, isError: boolean): void {
    const span = this.#span
    if (name !== undefined) span.updateName(name)
    span.setAttributes(attributes)
    if (isError) span.setStatus({ code: SpanStatusCode.ERROR })
    span.end(this.#parts.clock.now())
  }

  #child(name: string, kind: SpanKind, attributes: Attributes): Span {
    const { tracer, clock } = this.#parts
    const options = { kind, startTime: clock.now(), attributes }
    return tracer.startSpan(name, options, trace.setSpan(ROOT_CONTEXT, this.#span))
  }
}

/** A call to another server. */
export class TracedCall {
  readonly #span: Span
  readonly #tracestate: string | undefined
  readonly #clock: SpanClock

  constructor(span: Span, tracestate: string | undefined, clock: SpanClock) {
    this.#span = span
    this.#tracestate = tracestate
    this.#clock = clock
  }

  /** For the fields that the other server gets. */
  get context(): TraceContext {
    return contextOfSpan(this.#span, this.#tracestate)
  }

  end(attributes: Attributes, isError: boolean): void {
    this.#span.setAttributes(attributes)
    if (isError) this.#span.setStatus({ code: SpanStatusCode.ERROR })
    this.#span.end(this.#clock.now())
  }
}

function contextOfSpan(span: Span, tracestate: string | undefined): TraceContext {
  const { traceId, spanId } = span.spanContext()
  return { traceId, spanId, isSampled: true, ...(tracestate !== undefined && { tracestate }) }
}
