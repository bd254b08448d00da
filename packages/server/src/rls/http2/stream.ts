/** One request on a connection, and the call that a handler sees of it. */

import type { RpcCall } from '../rpc.ts'
import type { RequestHead } from './request-head.ts'

/** What a stream asks of its connection. */
export interface StreamOwner {
  reply(stream: Stream, message: Uint8Array, length: number): void
  send(stream: Stream, message: Uint8Array): void
  finish(stream: Stream, status: number, text: string): void
}

const nothing = Buffer.alloc(0)

export class Stream implements RpcCall {
  readonly id: number
  readonly #owner: StreamOwner
  readonly head: RequestHead
  bytes: Buffer = nothing
  start = 0
  end = 0
  isOpen = true
  /** The client has sent everything. */
  isRequestComplete = false
  /** The handler has it. */
  isHandled = false
  hasSentHeaders = false
  receiveWindow: number
  sendWindow: number
  /** Data that has to wait for the client's window, and what comes at its end. */
  waiting: Buffer[] = []
  trailers: Buffer | undefined
  onGone: (() => void) | undefined

  constructor(owner: StreamOwner, id: number, head: RequestHead, windows: [number, number]) {
    this.#owner = owner
    this.id = id
    this.head = head
    this.receiveWindow = windows[0]
    this.sendWindow = windows[1]
  }

  get path(): string {
    return this.head.path
  }

  get timeout(): string {
    return this.head.timeout
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

  /** Appends a part of a body that does not come in one piece. */
  append(part: Buffer): void {
    const length = this.end - this.start
    if (this.bytes.length - this.end < part.length) {
      const larger = Buffer.allocUnsafe(Math.max(1_024, 2 * (length + part.length)))
      this.bytes.copy(larger, 0, this.start, this.end)
      this.bytes = larger
      this.start = 0
      this.end = length
    }
    part.copy(this.bytes, this.end)
    this.end += part.length
  }
}
