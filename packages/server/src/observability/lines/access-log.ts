/** The access log: one line for each request of the gateway, or for a share of them. */

import {
  type AccessLineOptions,
  type AccessRecord,
  combinedAccess,
  type FormatAccess,
  jsonAccess,
} from './access-line.ts'
import type { LineSink } from './line-sink.ts'

export const accessFormats = ['json', 'combined'] as const

export type AccessFormat = (typeof accessFormats)[number]

export interface AccessLogOptions extends AccessLineOptions {
  readonly format: AccessFormat
  /** The share of responses with a status below 400 that is logged. */
  readonly sample: number
  /** The share of the others. */
  readonly sampleErrors: number
}

export class AccessLog {
  readonly #sink: LineSink
  readonly #format: FormatAccess
  readonly #sample: number
  readonly #sampleErrors: number

  constructor(sink: LineSink, options: AccessLogOptions) {
    this.#sink = sink
    this.#format = options.format === 'json' ? jsonAccess(options) : combinedAccess(options)
    this.#sample = options.sample
    this.#sampleErrors = options.sampleErrors
  }

  /** Writes the line of a request, if it is drawn. The record is made only then. */
  add(status: number, record: () => AccessRecord): void {
    const share = status < 400 ? this.#sample : this.#sampleErrors
    if (share < 1 && Math.random() >= share) return
    this.#sink.write(this.#format(record(), share))
  }
}
