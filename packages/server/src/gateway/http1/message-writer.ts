/**
 * Writes an HTTP/1 message whose body is still arriving, at the pace of the peer. Requests to
 * upstreams and responses to clients use it alike.
 */

import type { Socket } from 'node:net'
import type { Body, BodySink } from '../body/body.ts'
import { bodyError } from '../body/body-error.ts'
import type { HeaderList } from '../header-list.ts'

/** How the peer recognises the end of a message; `none` has no body. */
export type Ending = 'length' | 'chunks' | 'close' | 'none'

export interface ArrivingMessage {
  readonly head: string
  readonly body: Body
  readonly ending: Ending
  /** The declared length, if it must be checked. */
  readonly bodyBytes?: number | undefined
}

export interface MessageOwner {
  /** The whole message was given to the socket. */
  onWritten(): void
  /** The message is incomplete. */
  onFailed(error: Error): void
  /** The kernel has taken the head. */
  onBegun?(): void
  /** The socket is full, or takes more again. */
  onBlocked?(isBlocked: boolean): void
}

export function writeMessage(socket: Socket, message: ArrivingMessage, owner: MessageOwner): void {
  const writer = new MessageWriter(socket, message, owner)
  message.body.pipe(writer)
  // The peer should not wait for the head until the body begins.
  writer.flushHead()
}

/** https://www.rfc-editor.org/rfc/rfc9112#section-7.1.2 */
function lastChunkText(trailers: HeaderList = []): string {
  let text = '0\r\n'
  for (let at = 0; at < trailers.length; at += 2) text += `${trailers[at]}: ${trailers[at + 1]}\r\n`
  return `${text}\r\n`
}

const noBytes = Buffer.alloc(0)

class MessageWriter implements BodySink {
  readonly #socket: Socket
  readonly #message: ArrivingMessage
  readonly #owner: MessageOwner
  #hasHead = false
  #writtenBytes = 0
  #isOver = false
  /** Chunks may still come meanwhile: bytes that the body has already read. */
  #isBlocked = false

  constructor(socket: Socket, message: ArrivingMessage, owner: MessageOwner) {
    this.#socket = socket
    this.#message = message
    this.#owner = owner
  }

  flushHead(): void {
    if (this.#hasHead || this.#isOver) return
    this.#hasHead = true
    this.#socket.write(this.#message.head, 'latin1', (error) => {
      if (!error) this.#owner.onBegun?.()
    })
  }

  write(chunk: Buffer): boolean {
    // If the peer has disconnected, the body is cancelled elsewhere.
    if (this.#isOver || this.#socket.destroyed) return false
    const { bodyBytes, body } = this.#message
    this.#writtenBytes += chunk.length
    if (bodyBytes !== undefined && this.#writtenBytes > bodyBytes) {
      body.cancel()
      this.fail(bodyError('TIDEGATE_BODY_INVALID'))
      return false
    }
    this.#writeChunk(chunk)
    if (!this.#socket.writableNeedDrain) return true
    if (!this.#isBlocked) this.#waitForDrain()
    return false
  }

  end(chunk = noBytes, trailers: HeaderList | undefined): void {
    const socket = this.#socket
    if (this.#isOver || socket.destroyed) return
    this.#writtenBytes += chunk.length
    const { bodyBytes = this.#writtenBytes, ending } = this.#message
    if (this.#writtenBytes !== bodyBytes) {
      const isShort = this.#writtenBytes < bodyBytes
      this.fail(bodyError(isShort ? 'TIDEGATE_BODY_ABORTED' : 'TIDEGATE_BODY_INVALID'))
      return
    }
    socket.cork()
    this.#writeChunk(chunk)
    if (ending === 'chunks') socket.write(lastChunkText(trailers), 'latin1')
    socket.uncork()
    this.#isOver = true
    this.#owner.onWritten()
  }

  fail(error: Error): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#owner.onFailed(error)
  }

  #waitForDrain(): void {
    this.#isBlocked = true
    this.#owner.onBlocked?.(true)
    this.#socket.once('drain', () => {
      this.#isBlocked = false
      if (this.#isOver) return
      this.#owner.onBlocked?.(false)
      this.#message.body.resume()
    })
  }

  #writeChunk(chunk: Buffer): void {
    const socket = this.#socket
    const { ending } = this.#message
    socket.cork()
    this.flushHead()
    // An empty chunk would be the last one.
    if (ending !== 'none' && chunk.length > 0) {
      if (ending === 'chunks') socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1')
      socket.write(chunk)
      if (ending === 'chunks') socket.write('\r\n', 'latin1')
    }
    socket.uncork()
  }
}
