/** One request of a connection, as the call that the handler gets. */

import type { RpcCall } from '../../rpc.ts'
import type { RequestHead } from './request-head.ts'

/** The connection's side of a stream: it writes the response. */
export interface StreamOwner {
  reply(stream: Stream, message: Uint8Array, length: number): void
  send(stream: Stream, message: Uint8Array): void
  finish(stream: Stream, status: number, text: string): void
}

const noBytes = Buffer.alloc(0)

export class Stream implements RpcCall {
  readonly id: number
  readonly #owner: StreamOwner
  readonly head: RequestHead
  bytes: Buffer = noBytes
  start = 0
  end = 0
  isOpen = true
  /** True if the client has ended its side of the stream. */
  isRequestComplete = false
  /** True if the handler has the call. */
  isHandled = false
  hasSentHeaders = false
  receiveWindowBytes: number
  sendWindowBytes: number
  /** Data that waits for the client's flow-control window. */
  waiting: Buffer[] = []
  /** The header block to send after that data. */
  trailers: Buffer | undefined
  onCancel: (() => void) | undefined

  constructor(owner: StreamOwner, id: number, head: RequestHead, windows: [number, number]) {
    this.#owner = owner
    this.id = id
    this.head = head
    this.receiveWindowBytes = windows[0]
    this.sendWindowBytes = windows[1]
  }

  get path(): string {
    return this.head.path
  }

  get timeout(): string {
    return this.head.timeout
  }

  get requestId(): string {
    return this.head.requestId
  }

  get traceparent(): string {
    return this.head.traceparent
  }

  get isBlocked(): boolean {
    return this.waiting.length > 0
  }

  reply(message: Uint8Array, length: number): void {
    this.#owner.reply(this, message, length)
  }

  send(message: Uint8Array): void {
    this.#owner.send(this, message)
  }

  finish(status: number, text: string): void {
    this.#owner.finish(this, status, text)
  }

  /** Appends a chunk of a body that takes more than one frame. */
  append(chunk: Buffer): void {
    const length = this.end - this.start
    if (this.bytes.length - this.end < chunk.length) {
      const larger = Buffer.allocUnsafe(Math.max(1_024, 2 * (length + chunk.length)))
      this.bytes.copy(larger, 0, this.start, this.end)
      this.bytes = larger
      this.start = 0
      this.end = length
    }
    chunk.copy(this.bytes, this.end)
    this.end += chunk.length
  }
}
