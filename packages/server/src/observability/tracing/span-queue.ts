/**
 * The queue between spans and their exporter. It is bounded, also by those that are being sent: if
 * the collector does not answer, spans are dropped and counted, and nothing else changes.
 */

import type { Context } from '@opentelemetry/api'
import type { ReadableSpan, SpanExporter, SpanProcessor } from '@opentelemetry/sdk-trace'

type ExportResult = Parameters<Parameters<SpanExporter['export']>[1]>[0]

/** Why spans were dropped: the queue was full, or the collector did not take them. */
export const dropReasons = ['queue_full', 'export_failed'] as const

export type DropReason = (typeof dropReasons)[number]

/** About 4 MB. At 1,000 spans per second, it bridges 4 s in which the collector is away. */
export const SPANS_MAX = 4_096

/** The code of a successful export. */
const SUCCESS = 0

export interface SpanQueueOptions {
  /** Called when an export fails, or succeeds again. */
  readonly onContact: (problem: string | undefined) => void
  readonly spansMax?: number
}

export class SpanQueue {
  readonly dropped: Record<DropReason, number> = { queue_full: 0, export_failed: 0 }
  exported = 0
  readonly #spansMax: number
  readonly #onContact: SpanQueueOptions['onContact']
  #waiting = 0
  #isFailing = false

  constructor({ onContact, spansMax = SPANS_MAX }: SpanQueueOptions) {
    this.#onContact = onContact
    this.#spansMax = spansMax
  }

  /** Spans that wait or are being sent. */
  get waiting(): number {
    return this.#waiting
  }

  /** Puts the bound in front of a processor, which must use the exporter of `counted`. */
  bounded(inner: SpanProcessor): SpanProcessor {
    return {
      onStart: (span: Parameters<SpanProcessor['onStart']>[0], parent: Context) =>
        inner.onStart(span, parent),
      onEnd: (span) => {
        if (this.#waiting >= this.#spansMax) {
          this.dropped.queue_full += 1
          return
        }
        this.#waiting += 1
        inner.onEnd(span)
      },
      forceFlush: () => inner.forceFlush(),
      shutdown: () => inner.shutdown(),
    }
  }

  /** Counts the spans that an exporter sends. */
  counted(exporter: SpanExporter): SpanExporter {
    return {
      export: (spans: ReadableSpan[], done: (result: ExportResult) => void) => {
        exporter.export(spans, (result) => {
          this.#settle(spans.length, result)
          done(result)
        })
      },
      shutdown: () => exporter.shutdown(),
      ...(exporter.forceFlush !== undefined && { forceFlush: () => exporter.forceFlush?.() }),
    } as SpanExporter
  }

  #settle(count: number, { code, error }: ExportResult): void {
    this.#waiting -= count
    const isFailure = code !== SUCCESS
    if (isFailure) this.dropped.export_failed += count
    else this.exported += count
    if (isFailure === this.#isFailing) return
    this.#isFailing = isFailure
    this.#onContact(isFailure ? (error?.message ?? 'the collector refused the spans') : undefined)
  }
}
