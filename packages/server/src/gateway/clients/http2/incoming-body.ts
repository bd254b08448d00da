/**
 * The body of a request over HTTP/2. DATA frames that arrive in one turn of the event loop are
 * passed on together, so that frames of one byte cost later stages little more than large ones.
 */

import type { Readable } from 'node:stream'
import type { Body, BodySink } from '../../body/body.ts'
import { bodyError } from '../../body/body-error.ts'
import { GrowableBuffer } from '../../body/growable-buffer.ts'

/** The usual size of a frame: frames of this size are passed on without a copy. */
const CHUNK_BYTES_MAX = 16 * 1_024

export class IncomingBody implements Body {
  readonly #stream: Readable
  readonly #onFrame: (bytes: number) => void
  readonly #buffer = new GrowableBuffer()
  #isScheduled = false
  #sink: BodySink | undefined

  /**
   * Reads the stream itself: the request object of node:http2 is a second stream on top, which
   * doubles the time of each frame. `onFrame` is called for each frame.
   */
  constructor(stream: Readable, onFrame: (bytes: number) => void) {
    this.#stream = stream
    this.#onFrame = onFrame
  }

  whole(): undefined {
    return undefined
  }

  pipe(sink: BodySink): void {
    const stream = this.#stream
    this.#sink = sink
    if (stream.destroyed) {
      sink.fail(bodyError('TIDEGATE_BODY_ABORTED'))
      return
    }
    stream.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onClose)
    stream.resume()
  }

  resume(): void {
    if (this.#sink !== undefined) this.#stream.resume()
  }

  cancel(): void {
    this.#sink = undefined
    this.#buffer.take()
    const stream = this.#stream
    stream.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose)
    stream.pause()
  }

  readonly #onData = (chunk: Buffer) => {
    this.#onFrame(chunk.length)
    this.#buffer.add(chunk)
    if (this.#buffer.length >= CHUNK_BYTES_MAX) this.#pass()
    else if (!this.#isScheduled) {
      this.#isScheduled = true
      setImmediate(this.#onTurn)
    }
  }

  readonly #onTurn = () => {
    this.#isScheduled = false
    this.#pass()
  }

  readonly #onEnd = () => {
    this.#pass()
    const sink = this.#sink
    this.#sink = undefined
    sink?.end(undefined, undefined)
  }

  readonly #onClose = () => this.#sink?.fail(bodyError('TIDEGATE_BODY_ABORTED'))

  #pass(): void {
    if (this.#buffer.length === 0) return
    if (this.#sink?.write(this.#buffer.take()) === false) this.#stream.pause()
  }
}
