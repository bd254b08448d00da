/** Writes an answer whose body is still arriving, at the pace of the client. */

import type { Socket } from 'node:net'
import type { BodySink, BodySource, HeaderList } from '../../message.ts'
import { type Ending, lastChunkText } from './answer-text.ts'

export interface AnswerOwner {
  hasEnded(): void
  hasFailed(): void
}

export class AnswerSink implements BodySink {
  readonly #socket: Socket
  readonly #source: BodySource
  readonly #ending: Ending
  readonly #owner: AnswerOwner
  /** Until it is written, which is with the first of the body. */
  #head: string
  #isOver = false
  /** Also then pieces come: the rest of what the source has read. */
  #isWaiting = false

  constructor(
    socket: Socket,
    source: BodySource,
    owner: AnswerOwner,
    { head, ending }: { head: string; ending: Ending },
  ) {
    this.#socket = socket
    this.#source = source
    this.#owner = owner
    this.#head = head
    this.#ending = ending
  }

  /** A client should not wait for the head until there is something of the body. */
  flushHead(): void {
    if (this.#head === '' || this.#isOver) return
    this.#writeHead()
  }

  write(chunk: Buffer): boolean {
    // Who has gone takes nothing more, and the source is being told.
    if (this.#isOver || this.#socket.destroyed) return false
    this.#writePiece(chunk)
    if (!this.#socket.writableNeedDrain) return true
    if (!this.#isWaiting) this.#wait()
    return false
  }

  end(chunk: Buffer | undefined, trailers: HeaderList | undefined): void {
    if (this.#isOver || this.#socket.destroyed) return
    this.#isOver = true
    const socket = this.#socket
    socket.cork()
    if (chunk !== undefined) this.#writePiece(chunk)
    else this.#writeHead()
    if (this.#ending === 'chunks') socket.write(lastChunkText(trailers), 'latin1')
    socket.uncork()
    this.#owner.hasEnded()
  }

  fail(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#owner.hasFailed()
  }

  #wait(): void {
    this.#isWaiting = true
    this.#socket.once('drain', () => {
      this.#isWaiting = false
      this.#source.resume()
    })
  }

  #writePiece(chunk: Buffer): void {
    const socket = this.#socket
    socket.cork()
    this.#writeHead()
    // A chunk without bytes would be the last.
    if (this.#ending !== 'none' && chunk.length > 0) {
      if (this.#ending === 'chunks') socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1')
      socket.write(chunk)
      if (this.#ending === 'chunks') socket.write('\r\n', 'latin1')
    }
    socket.uncork()
  }

  #writeHead(): void {
    if (this.#head === '') return
    this.#socket.write(this.#head, 'latin1')
    this.#head = ''
  }
}
