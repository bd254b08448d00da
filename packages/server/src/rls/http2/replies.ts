/**
 * The answers of a connection, within the windows that the client grants. What does not fit waits
 * with its stream; a client that never grants more is closed after a while by its connection.
 */

import type { Duplex } from 'node:stream'
import { MESSAGE_PREFIX_BYTES, rpcStatus } from '../rpc.ts'
import {
  ConnectionError,
  errorCodes,
  FRAME_BYTES_MAX,
  FRAME_HEADER_BYTES,
  flags,
  frame,
  frameTypes,
  uint32Frame,
  WINDOW_BYTES_DEFAULT,
  WINDOW_BYTES_MAX,
  writeFrameHeader,
  writeUint32,
} from './frames.ts'
import { Outbox } from './outbox.ts'
import {
  emptyTable,
  okTrailers,
  plainStatus,
  replyHeaders,
  statusTrailers,
  trailersOnly,
} from './reply-blocks.ts'
import type { Stream, StreamOwner } from './stream.ts'

const refusalText = Buffer.from('gRPC only\n', 'latin1')

const okHeaderBytes = frame(frameTypes.headers, flags.endHeaders, 0, replyHeaders)
const okTrailerBytes = endFrame(0, okTrailers)

/** A unary answer is headers, one data frame and trailers: all of it but the message. */
const OK_BYTES =
  okHeaderBytes.length + FRAME_HEADER_BYTES + MESSAGE_PREFIX_BYTES + okTrailerBytes.length

export class Replies implements StreamOwner {
  readonly outbox: Outbox
  readonly #onEnd: (stream: Stream) => void
  readonly #onOutput: () => void
  /** Streams with data that waits for a window, in the order in which they came to it. */
  readonly #blocked = new Set<Stream>()
  #window = WINDOW_BYTES_DEFAULT
  #mustResetTable = false
  blockedSinceMs: number | undefined

  constructor(socket: Duplex, onEnd: (stream: Stream) => void, onOutput: () => void) {
    this.outbox = new Outbox(socket)
    this.#onEnd = onEnd
    this.#onOutput = onOutput
  }

  reply(stream: Stream, message: Uint8Array, length: number): void {
    if (!stream.isOpen) {
      this.#onEnd(stream)
      return
    }
    const dataBytes = MESSAGE_PREFIX_BYTES + length
    const isFree = dataBytes <= this.#window && dataBytes <= stream.sendWindow
    if (!isFree || this.#mustResetTable || dataBytes > FRAME_BYTES_MAX || stream.hasSentHeaders) {
      this.send(stream, message.subarray(0, length))
      this.finish(stream, 0, '')
      return
    }
    this.#window -= dataBytes
    let at = this.outbox.reserve(OK_BYTES + length)
    const { bytes } = this.outbox
    bytes.set(okHeaderBytes, at)
    writeUint32(bytes, at + 5, stream.id)
    at += okHeaderBytes.length
    writeFrameHeader(bytes, at, dataBytes, frameTypes.data, 0, stream.id)
    at += FRAME_HEADER_BYTES
    bytes[at] = 0
    writeUint32(bytes, at + 1, length)
    at += MESSAGE_PREFIX_BYTES
    for (let from = 0; from < length; from++) bytes[at + from] = message[from] as number
    at += length
    bytes.set(okTrailerBytes, at)
    writeUint32(bytes, at + 5, stream.id)
    this.#end(stream)
  }

  send(stream: Stream, message: Uint8Array): void {
    if (!stream.isOpen) return
    this.#writeHeaders(stream)
    const data = Buffer.allocUnsafe(MESSAGE_PREFIX_BYTES + message.length)
    data[0] = 0
    writeUint32(data, 1, message.length)
    data.set(message, MESSAGE_PREFIX_BYTES)
    stream.waiting.push(data)
    this.#advance(stream)
    this.#onOutput()
  }

  finish(stream: Stream, status: number, text: string): void {
    if (!stream.isOpen) {
      this.#onEnd(stream)
      return
    }
    if (!stream.hasSentHeaders) {
      this.#writeEnd(stream, trailersOnly(status, text))
      return
    }
    stream.trailers = status === 0 ? okTrailers : statusTrailers(status, text)
    this.#advance(stream)
    this.#onOutput()
  }

  /** Refuses what is no gRPC, with a status of HTTP. */
  refuse(stream: Stream, status: number): void {
    const block = this.#block(plainStatus(status))
    this.outbox.write(frame(frameTypes.headers, flags.endHeaders, stream.id, block))
    stream.hasSentHeaders = true
    stream.waiting.push(refusalText)
    stream.trailers = statusTrailers(rpcStatus.unimplemented, '')
    this.#advance(stream)
    this.#onOutput()
  }

  reset(streamId: number, code: number): void {
    this.write(uint32Frame(frameTypes.reset, streamId, code))
  }

  write(bytes: Uint8Array): void {
    this.outbox.write(bytes)
    this.#onOutput()
  }

  /** More room on the whole connection. */
  widen(byBytes: number): void {
    this.#window += byBytes
    if (this.#window > WINDOW_BYTES_MAX) {
      throw new ConnectionError(errorCodes.flowControl, 'a window that is too large')
    }
    for (const stream of this.#blocked) this.#advance(stream)
    this.#onOutput()
  }

  /** More room for one stream, or less; false where it would be too large. */
  widenStream(stream: Stream, byBytes: number): boolean {
    stream.sendWindow += byBytes
    if (stream.sendWindow > WINDOW_BYTES_MAX) return false
    if (stream.isBlocked) {
      this.#advance(stream)
      this.#onOutput()
    }
    return true
  }

  /** The client has changed the size of its table, and is to be told the one that is used. */
  resetTable(): void {
    this.#mustResetTable = true
  }

  /** Drops what waits. */
  forget(stream: Stream): void {
    stream.waiting = []
    stream.trailers = undefined
    this.#unblock(stream)
  }

  #advance(stream: Stream): void {
    for (let data = stream.waiting[0]; data !== undefined; data = stream.waiting[0]) {
      const count = Math.min(data.length, this.#window, stream.sendWindow, FRAME_BYTES_MAX)
      if (count <= 0) {
        this.#blocked.add(stream)
        this.blockedSinceMs ??= Date.now()
        return
      }
      this.#window -= count
      stream.sendWindow -= count
      this.outbox.write(frame(frameTypes.data, 0, stream.id, data.subarray(0, count)))
      if (count < data.length) stream.waiting[0] = data.subarray(count)
      else stream.waiting.shift()
    }
    this.#unblock(stream)
    if (stream.trailers === undefined) return
    this.#writeEnd(stream, stream.trailers)
  }

  #unblock(stream: Stream): void {
    this.#blocked.delete(stream)
    this.blockedSinceMs = this.#blocked.size === 0 ? undefined : Date.now()
  }

  #writeHeaders(stream: Stream): void {
    if (stream.hasSentHeaders) return
    stream.hasSentHeaders = true
    const block = this.#block(replyHeaders)
    this.outbox.write(frame(frameTypes.headers, flags.endHeaders, stream.id, block))
  }

  #writeEnd(stream: Stream, block: Buffer): void {
    this.outbox.write(endFrame(stream.id, this.#block(block)))
    this.#end(stream)
  }

  /** A stream whose request is still under way is told that nobody waits for the rest of it. */
  #end(stream: Stream): void {
    if (!stream.isRequestComplete) {
      this.outbox.write(uint32Frame(frameTypes.reset, stream.id, errorCodes.none))
    }
    stream.isOpen = false
    this.#onEnd(stream)
    this.#onOutput()
  }

  #block(block: Buffer): Buffer {
    if (!this.#mustResetTable) return block
    this.#mustResetTable = false
    return Buffer.concat([emptyTable, block])
  }
}

function endFrame(streamId: number, block: Uint8Array): Buffer {
  return frame(frameTypes.headers, flags.endHeaders | flags.endStream, streamId, block)
}
