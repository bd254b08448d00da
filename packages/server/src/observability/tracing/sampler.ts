/**
 * Which requests are traced. It is decided from a few numbers before anything is built for a span.
 *
 * The share is taken from the last 56 bits of the trace id, as OpenTelemetry specifies it, so that
 * services with the same share sample the same traces. A client that is not trusted chooses its
 * trace id and its flag, so neither counts: otherwise it could have every request sampled.
 * https://opentelemetry.io/docs/specs/otel/trace/tracestate-probability-sampling/
 */

import type { TraceContext } from '../trace-context.ts'

export const samplerNames = [
  ...['always_on', 'always_off', 'traceidratio', 'parentbased_always_on'],
  ...['parentbased_always_off', 'parentbased_traceidratio'],
] as const

export interface SamplerSettings {
  /** True follows the decision of the caller, if there is one. */
  readonly isParentBased: boolean
  /** The share of traces from 0 to 1. */
  readonly ratio: number
}

/** The upper 52 of these bits, because a number holds 53 exactly. */
const RANDOM_BITS = 52
const RANDOM_DIGITS_AT = 32 - 56 / 4
const RANDOM_DIGITS_END = RANDOM_DIGITS_AT + RANDOM_BITS / 4

export class Sampler {
  readonly #isParentBased: boolean
  readonly #ratio: number
  /** Traces with random bits from here on are sampled. */
  readonly #threshold: number

  constructor({ isParentBased, ratio }: SamplerSettings) {
    this.#isParentBased = isParentBased
    this.#ratio = ratio
    this.#threshold = (1 - ratio) * 2 ** RANDOM_BITS
  }

  /** For a trace that begins here. */
  ofRoot(traceId: string): boolean {
    if (this.#ratio >= 1) return true
    if (this.#ratio <= 0) return false
    const random = traceId.slice(RANDOM_DIGITS_AT, RANDOM_DIGITS_END)
    return Number.parseInt(random, 16) >= this.#threshold
  }

  /** For a trace that a caller began. */
  ofChild(parent: TraceContext, isTrusted: boolean): boolean {
    if (!isTrusted) return Math.random() < this.#ratio
    return this.#isParentBased ? parent.isSampled : this.ofRoot(parent.traceId)
  }
}
