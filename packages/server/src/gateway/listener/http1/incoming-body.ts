/** The body of a request over HTTP/1, told apart from what follows it. */

import { ChunkedReader } from '../../http1/chunked-reader.ts'
import type { RequestHead } from '../../request-head.ts'
import type { ArrivingBytes, BodyErrorCode, ByteReceiver } from '../channel.ts'
import { requestErrors } from './read-head.ts'

export class IncomingBody implements ArrivingBytes {
  readonly #onFlowing: () => void
  readonly #chunked: ChunkedReader | undefined
  #left: number
  #receiver: ByteReceiver | undefined
  #isFlowing = false
  #isDiscarded = false
  #broken: BodyErrorCode | undefined

  /** `onFlowing` is called when it takes bytes again. */
  constructor({ isChunked, bodyBytes = 0 }: RequestHead, onFlowing: () => void) {
    this.#onFlowing = onFlowing
    this.#left = bodyBytes
    this.#chunked = isChunked
      ? new ChunkedReader((chunk) => this.#receiver?.onData(chunk), requestErrors)
      : undefined
  }

  /** Whether it takes bytes now. */
  get isFlowing(): boolean {
    return this.#isFlowing
  }

  get isPaused(): boolean {
    return !this.#isFlowing
  }

  /** All of it has been read. */
  get isComplete(): boolean {
    return this.#chunked === undefined ? this.#left === 0 : this.#chunked.isDone
  }

  start(receiver: ByteReceiver): void {
    this.#receiver = receiver
    if (this.#broken === undefined) this.resume()
    else receiver.onBroken(this.#broken)
  }

  pause(): void {
    if (!this.#isDiscarded) this.#isFlowing = false
  }

  resume(): void {
    if (this.#isFlowing || this.#broken !== undefined || this.isComplete) return
    this.#isFlowing = true
    this.#onFlowing()
  }

  stop(): void {
    this.#receiver = undefined
    if (!this.#isDiscarded) this.#isFlowing = false
  }

  /** The rest is read, and thrown away. */
  discard(): void {
    this.#receiver = undefined
    this.#isDiscarded = true
    this.resume()
  }

  /** Returns where it ended, or the length of the piece. Throws where it is not valid. */
  read(piece: Buffer, at: number): number {
    const end = this.#chunked?.read(piece, at) ?? this.#readCounted(piece, at)
    if (this.isComplete) {
      this.#isFlowing = false
      this.#receiver?.onEnd()
    }
    return end
  }

  /** No more of it will come. */
  breakOff(code: BodyErrorCode): void {
    if (this.isComplete || this.#broken !== undefined) return
    this.#broken = code
    this.#isFlowing = false
    this.#receiver?.onBroken(code)
  }

  #readCounted(piece: Buffer, at: number): number {
    const end = Math.min(piece.length, at + this.#left)
    this.#left -= end - at
    this.#receiver?.onData(piece.subarray(at, end))
    return end
  }
}
