/** The body of a request that `node:http` reads. */

import type { IncomingMessage } from 'node:http'
import type { Body, BodySink } from '../../body/body.ts'
import { type BodyErrorCode, bodyError } from '../../body/body-error.ts'
import { IncomingBody } from '../http2/incoming-body.ts'

export class NodeBody implements Body {
  readonly #incoming: IncomingMessage
  readonly #body: IncomingBody
  #sink: BodySink | undefined
  #failed: BodyErrorCode | undefined

  constructor(incoming: IncomingMessage) {
    this.#incoming = incoming
    this.#body = new IncomingBody(incoming, () => undefined)
  }

  whole(): undefined {
    return undefined
  }

  pipe(sink: BodySink): void {
    if (this.#failed !== undefined) {
      sink.fail(bodyError(this.#failed))
      return
    }
    this.#sink = sink
    this.#body.pipe(sink)
  }

  resume(): void {
    if (this.#sink !== undefined) this.#body.resume()
  }

  cancel(): void {
    this.#sink = undefined
    this.#body.cancel()
  }

  /** Reports that no more of the body arrives. Does nothing to a complete body. */
  fail(code: BodyErrorCode): void {
    if (this.#failed !== undefined || this.#incoming.complete) return
    this.#failed = code
    const sink = this.#sink
    this.cancel()
    sink?.fail(bodyError(code))
  }

  /** Reads the rest and drops it, so that the next request can be read. */
  discard(): void {
    this.cancel()
    this.#incoming.resume()
  }
}
