/**
 * Makes the spans `ratelimit.check` of one limiter. It stands in front of everything else, so that
 * decisions from leases and cached denials have a span, too.
 */

import { ROOT_CONTEXT, type Span, SpanStatusCode, type Tracer, trace } from '@opentelemetry/api'
import type { Decision } from '../decision.ts'
import type {
  Adjustment,
  Callback,
  Charge,
  ChargeMode,
  Counter,
  MaybePromise,
  Store,
  StoreCapabilities,
} from '../stores/store.ts'
import { checkAttributes } from './attributes.ts'
import type { SpanClock } from './span-clock.ts'
import type { CheckTrace, StoreSpans } from './store-spans.ts'

export interface TraceParts {
  readonly tracer: Tracer
  readonly clock: SpanClock
  readonly spans: StoreSpans
  /** The span of the caller; undefined if the call is not sampled. */
  parent(): Span | undefined
}

export class TracedStore implements Store {
  readonly isRemote: boolean
  readonly capabilities: StoreCapabilities
  readonly #store: Store
  readonly #parts: TraceParts

  constructor(store: Store, parts: TraceParts) {
    this.isRemote = store.isRemote
    this.capabilities = store.capabilities ?? {}
    this.#store = store
    this.#parts = parts
  }

  chargeOne(counter: Counter, cost: number, done: Callback): Decision | undefined {
    const parent = this.#parts.parent()
    if (parent === undefined) return this.#store.chargeOne(counter, cost, done)
    const call = this.#begin(parent, [counter])
    const traced: Callback = {
      resolve: (decision) => {
        call.end([decision])
        done.resolve(decision)
      },
      reject: (error) => {
        call.fail(error)
        done.reject(error)
      },
    }
    return call.run(() => {
      const decision = this.#store.chargeOne(counter, cost, traced)
      if (decision !== undefined) call.end([decision])
      return decision
    })
  }

  charge(group: readonly Charge[], mode: ChargeMode): MaybePromise<readonly Decision[]> {
    const parent = mode === 'peek' ? undefined : this.#parts.parent()
    if (parent === undefined) return this.#store.charge(group, mode)
    const call = this.#begin(parent, group)
    return call.run(() => {
      const decisions = this.#store.charge(group, mode)
      if (!(decisions instanceof Promise)) return call.end(decisions)
      return decisions.then(
        (all) => call.end(all),
        (error: unknown) => {
          call.fail(error)
          throw error
        },
      )
    })
  }

  adjust(group: readonly Adjustment[]): MaybePromise<readonly Decision[]> {
    return this.#store.adjust(group)
  }

  reset(group: readonly Counter[]): MaybePromise<void> {
    return this.#store.reset(group)
  }

  close(): MaybePromise<void> {
    return this.#store.close()
  }

  #begin(parent: Span, counters: readonly Counter[]): TracedCall {
    const { tracer, clock, spans } = this.#parts
    const context = trace.setSpan(ROOT_CONTEXT, parent)
    const span = tracer.startSpan('ratelimit.check', { startTime: clock.now() }, context)
    return new TracedCall(spans.begin(span), counters, this.isRemote, clock)
  }
}

/** A call under way. */
class TracedCall {
  readonly #check: CheckTrace
  readonly #counters: readonly Counter[]
  readonly #isShared: boolean
  readonly #clock: SpanClock

  constructor(
    check: CheckTrace,
    counters: readonly Counter[],
    isShared: boolean,
    clock: SpanClock,
  ) {
    this.#check = check
    this.#counters = counters
    this.#isShared = isShared
    this.#clock = clock
  }

  /** Ends the span if the call throws, as one with a wrong option does. */
  run<T>(call: () => T): T {
    try {
      return this.#check.run(call)
    } catch (error) {
      this.fail(error)
      throw error
    }
  }

  end(decisions: readonly Decision[]): readonly Decision[] {
    const applied = this.#counters.map(({ name, limit }, at) => {
      return { name, limit, decision: decisions[at] as Decision }
    })
    this.#check.done()
    const { span } = this.#check
    span.setAttributes(checkAttributes(applied, this.#isShared))
    span.end(this.#clock.now())
    return decisions
  }

  fail(error: unknown): void {
    this.#check.done()
    const { span } = this.#check
    span.recordException(error instanceof Error ? error : String(error))
    span.setStatus({ code: SpanStatusCode.ERROR })
    span.end(this.#clock.now())
  }
}
