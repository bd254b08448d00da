/**
 * The body of a request over HTTP/2. DATA frames that arrive in one turn of the event loop are
 * handed on together, so that frames of one byte cost later stages little more than large ones.
 */

import type { ServerHttp2Stream } from 'node:http2'
import type { ArrivingBytes, ByteReceiver } from '../channel.ts'
import { HeldBytes } from '../held-bytes.ts'

/** The usual size of a frame: frames of this size are handed on without a copy. */
const PIECE_BYTES_MAX = 16 * 1_024

export class IncomingBytes implements ArrivingBytes {
  readonly #stream: ServerHttp2Stream
  readonly #onFrame: (bytes: number) => void
  readonly #held = new HeldBytes()
  #isScheduled = false
  #receiver: ByteReceiver | undefined

  /**
   * Reads the stream itself: the request object of node:http2 is a second stream on top, which
   * doubles the time of each frame. `onFrame` is called for each frame.
   */
  constructor(stream: ServerHttp2Stream, onFrame: (bytes: number) => void) {
    this.#stream = stream
    this.#onFrame = onFrame
  }

  get isPaused(): boolean {
    return this.#stream.isPaused()
  }

  start(receiver: ByteReceiver): void {
    const stream = this.#stream
    this.#receiver = receiver
    if (stream.destroyed) {
      receiver.onBroken('TIDEGATE_BODY_ABORTED')
      return
    }
    stream.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onClose)
    stream.resume()
  }

  pause(): void {
    this.#stream.pause()
  }

  resume(): void {
    this.#stream.resume()
  }

  stop(): void {
    this.#receiver = undefined
    this.#held.take()
    const stream = this.#stream
    stream.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose)
    stream.pause()
  }

  readonly #onData = (chunk: Buffer) => {
    this.#onFrame(chunk.length)
    this.#held.add(chunk)
    if (this.#held.length >= PIECE_BYTES_MAX) this.#handOn()
    else if (!this.#isScheduled) {
      this.#isScheduled = true
      setImmediate(this.#onTurn)
    }
  }

  readonly #onTurn = () => {
    this.#isScheduled = false
    this.#handOn()
  }

  readonly #onEnd = () => {
    this.#handOn()
    this.#receiver?.onEnd()
  }

  readonly #onClose = () => this.#receiver?.onBroken('TIDEGATE_BODY_ABORTED')

  #handOn(): void {
    if (this.#held.length > 0) this.#receiver?.onData(this.#held.take())
  }
}
