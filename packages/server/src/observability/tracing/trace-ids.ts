/**
 * Ids of traces and spans: random hexadecimal digits, cut from a text that is made for many ids at
 * once. An id takes 20 ns, so that a request that is not sampled can have one.
 */

import { randomFillSync } from 'node:crypto'
import type { IdGenerator } from '@opentelemetry/sdk-trace'

const TRACE_ID_DIGITS = 32
const SPAN_ID_DIGITS = 16

/** 128 trace ids. A text in use keeps all of it in memory, so it is not larger. */
const POOL_BYTES = 2_048

export class TraceIds implements IdGenerator {
  readonly #bytes = Buffer.alloc(POOL_BYTES)
  #digits = ''
  #at = 0
  #next: string | undefined

  /** The trace id that the SDK gets when it asks for the next one. */
  presetTraceId(traceId: string): void {
    this.#next = traceId
  }

  readonly generateTraceId = (): string => {
    const preset = this.#next
    this.#next = undefined
    return preset ?? this.#take(TRACE_ID_DIGITS)
  }

  readonly generateSpanId = (): string => this.#take(SPAN_ID_DIGITS)

  #take(digits: number): string {
    if (this.#at + digits > this.#digits.length) {
      this.#digits = randomFillSync(this.#bytes).toString('hex')
      this.#at = 0
    }
    const id = this.#digits.slice(this.#at, this.#at + digits)
    this.#at += digits
    // All zeros is not a valid id. Its chance is 1 in 2^64.
    return /[^0]/.test(id) ? id : this.#take(digits)
  }
}
