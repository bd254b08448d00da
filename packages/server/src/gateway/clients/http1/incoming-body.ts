/** The body of a request over HTTP/1, separated from the bytes that follow it. */

import type { Body, BodySink } from '../../body/body.ts'
import { type BodyErrorCode, bodyError } from '../../body/body-error.ts'
import { ChunkedReader } from '../../http1/chunked-reader.ts'
import type { RequestHead } from '../../request-head.ts'
import { requestErrors } from './read-request-head.ts'

/** `idle`: no bytes are read. `flowing`: to the sink. `discarding`: to nothing. */
type State = 'idle' | 'flowing' | 'discarding' | 'failed'

export class IncomingBody implements Body {
  readonly #onFlowing: () => void
  readonly #chunked: ChunkedReader | undefined
  #state: State = 'idle'
  #leftBytes: number
  #sink: BodySink | undefined
  #error: Error | undefined

  /** `onFlowing` is called when it takes bytes again. */
  constructor({ isChunked, bodyBytes = 0 }: RequestHead, onFlowing: () => void) {
    this.#onFlowing = onFlowing
    this.#leftBytes = bodyBytes
    this.#chunked = isChunked ? new ChunkedReader(this.#onData, requestErrors) : undefined
  }

  /** True if it takes bytes now. */
  get isFlowing(): boolean {
    return (this.#state === 'flowing' || this.#state === 'discarding') && !this.isComplete
  }

  /** True once all of it was read. */
  get isComplete(): boolean {
    return this.#chunked === undefined ? this.#leftBytes === 0 : this.#chunked.isDone
  }

  whole(): undefined {
    return undefined
  }

  pipe(sink: BodySink): void {
    this.#sink = sink
    if (this.#error === undefined) this.resume()
    else sink.fail(this.#error)
  }

  resume(): void {
    if (this.#state !== 'idle' || this.#sink === undefined || this.isComplete) return
    this.#state = 'flowing'
    this.#onFlowing()
  }

  cancel(): void {
    this.#sink = undefined
    if (this.#state === 'flowing') this.#state = 'idle'
  }

  /** Reads the rest and drops it. */
  discard(): void {
    this.#sink = undefined
    if (this.#state === 'failed' || this.isComplete) return
    this.#state = 'discarding'
    this.#onFlowing()
  }

  /** Returns where the body ended, or the length of the bytes. Throws if it is not valid. */
  read(bytes: Buffer, at: number): number {
    const end = this.#chunked?.read(bytes, at) ?? this.#readCounted(bytes, at)
    if (this.isComplete) this.#sink?.end(undefined, undefined)
    return end
  }

  /** No more of it will arrive. */
  fail(code: BodyErrorCode): void {
    if (this.isComplete || this.#state === 'failed') return
    this.#state = 'failed'
    this.#error = bodyError(code)
    this.#sink?.fail(this.#error)
  }

  readonly #onData = (chunk: Buffer) => {
    const isFull = this.#sink?.write(chunk) === false
    if (isFull && this.#state === 'flowing') this.#state = 'idle'
  }

  #readCounted(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#leftBytes)
    this.#leftBytes -= end - at
    this.#onData(bytes.subarray(at, end))
    return end
  }
}
