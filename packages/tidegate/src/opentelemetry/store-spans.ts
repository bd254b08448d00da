/**
 * Spans for the commands to a store. A command carries the charges of many calls, so each sampled
 * call gets a span of its own for it, with the size of the batch. If a command has several sampled
 * calls, their spans are linked.
 *
 * It is a part of a meter: `queued` finds the call that a charge belongs to, `command` makes the
 * spans. While no call is sampled, both are one comparison.
 */

import {
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import type { Meter } from '../observer.ts'
import { attributeNames } from './attributes.ts'
import { SpanClock } from './span-clock.ts'

export type CommandReport = Parameters<Meter['command']>

/** A check that is traced. */
export interface CheckTrace {
  readonly span: Span
  /** Calls a function; charges that it asks for belong to this check. */
  run<T>(call: () => T): T
  /** To be called when the check is decided. Does not end the span. */
  done(): void
}

/** Links of the first span of a command; a trace of a flood is read by its first ones. */
const LINKS_MAX = 32

/**
 * Sampled charges that are looked for in a command, instead of each of its charges among them. A
 * look-up in the map takes as long as to compare a charge with about this many.
 */
const FEW = 8

export class StoreSpans {
  readonly #tracer: Tracer
  readonly #clock: SpanClock
  #current: Check | undefined
  /** Charges of sampled checks that have not been sent; each check removes its own. */
  readonly #waiting = new Map<object, Span>()

  constructor(tracer: Tracer, clock: SpanClock = new SpanClock()) {
    this.#tracer = tracer
    this.#clock = clock
  }

  /** Begins a check whose span was made. */
  begin(span: Span): CheckTrace {
    return new Check(span, this.#waiting, (check) => {
      const before = this.#current
      this.#current = check
      return before
    })
  }

  /** `Meter.queued` */
  queued(charge: object): void {
    if (this.#current !== undefined) this.#current.add(charge)
  }

  /** `Meter.command` */
  command(...[shard, charges, tookMs, error, sent]: CommandReport): void {
    if (this.#waiting.size === 0 || sent === undefined) return
    const parents = this.#parentsOf(sent)
    if (parents.size === 0) return
    const endMs = this.#clock.now()
    const attributes = {
      [attributeNames.dbSystem]: 'redis',
      [attributeNames.batchSize]: charges,
      ...(shard !== '' && { [attributeNames.shard]: shard }),
      ...(error !== undefined && { [attributeNames.errorType]: error }),
    }
    const kind = SpanKind.CLIENT
    const spans: Span[] = []
    for (const parent of parents) {
      const [first] = spans
      const links = first === undefined ? [] : [{ context: first.spanContext() }]
      const options = { kind, startTime: endMs - tookMs, attributes, links }
      const context = trace.setSpan(ROOT_CONTEXT, parent)
      const span = this.#tracer.startSpan('ratelimit.store', options, context)
      if (first !== undefined && spans.length <= LINKS_MAX) {
        first.addLink({ context: span.spanContext() })
      }
      spans.push(span)
    }
    for (const span of spans) {
      if (error !== undefined) span.setStatus({ code: SpanStatusCode.ERROR })
      span.end(endMs)
    }
  }

  /** The sampled calls of a command. */
  #parentsOf(sent: readonly object[]): ReadonlySet<Span> {
    const parents = new Set<Span>()
    if (this.#waiting.size <= FEW) {
      for (const [charge, parent] of this.#waiting) if (sent.includes(charge)) parents.add(parent)
      return parents
    }
    for (const charge of sent) {
      const parent = this.#waiting.get(charge)
      if (parent !== undefined) parents.add(parent)
    }
    return parents
  }
}

class Check implements CheckTrace {
  readonly span: Span
  readonly #waiting: Map<object, Span>
  readonly #enter: (check: Check | undefined) => Check | undefined
  readonly #charges: object[] = []

  constructor(
    span: Span,
    waiting: Map<object, Span>,
    enter: (check: Check | undefined) => Check | undefined,
  ) {
    this.span = span
    this.#waiting = waiting
    this.#enter = enter
  }

  add(charge: object): void {
    this.#charges.push(charge)
    this.#waiting.set(charge, this.span)
  }

  run<T>(call: () => T): T {
    const before = this.#enter(this)
    try {
      return call()
    } finally {
      this.#enter(before)
    }
  }

  done(): void {
    for (const charge of this.#charges.splice(0)) this.#waiting.delete(charge)
  }
}
