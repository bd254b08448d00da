/**
 * Writes the responses of a connection within the client's flow-control windows. Data that does not
 * fit waits in its stream. The listener closes a connection whose windows stay exhausted.
 */

import type { Duplex } from 'node:stream'
import { MESSAGE_PREFIX_BYTES, rpcStatus } from '../../rpc.ts'
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
  responseHeaders,
  statusTrailers,
  trailersOnly,
} from './response-header-blocks.ts'
import type { Stream, StreamOwner } from './stream.ts'

const refusalText = Buffer.from('gRPC only\n', 'latin1')

const okHeaderBytes = frame(frameTypes.headers, flags.endHeaders, 0, responseHeaders)
const okTrailerBytes = endFrame(0, okTrailers)

/** The bytes of a unary response without its message: headers, one DATA frame, trailers. */
const OK_BYTES =
  okHeaderBytes.length + FRAME_HEADER_BYTES + MESSAGE_PREFIX_BYTES + okTrailerBytes.length

export class ResponseWriter implements StreamOwner {
  readonly outbox: Outbox
  readonly #onEnd: (stream: Stream) => void
  readonly #onOutput: () => void
  /** Streams with data that waits for a window, the longest wait first. */
  readonly #blocked = new Set<Stream>()
  #windowBytes = WINDOW_BYTES_DEFAULT
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
    const fitsWindows = dataBytes <= this.#windowBytes && dataBytes <= stream.sendWindowBytes
    if (
      !fitsWindows ||
      this.#mustResetTable ||
      dataBytes > FRAME_BYTES_MAX ||
      stream.hasSentHeaders
    ) {
      this.send(stream, message.subarray(0, length))
      this.finish(stream, 0, '')
      return
    }
    this.#windowBytes -= dataBytes
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

  /** Refuses a request that is not gRPC with an HTTP status. */
  refuse(stream: Stream, status: number): void {
    const headerBlock = this.#withTableSize(plainStatus(status))
    this.outbox.write(frame(frameTypes.headers, flags.endHeaders, stream.id, headerBlock))
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

  /** Widens the window of the connection. */
  widen(byBytes: number): void {
    this.#windowBytes += byBytes
    if (this.#windowBytes > WINDOW_BYTES_MAX) {
      throw new ConnectionError(errorCodes.flowControl, 'window too large')
    }
    for (const stream of this.#blocked) this.#advance(stream)
    this.#onOutput()
  }

  /** Changes the window of a stream; returns false if it would be too large. */
  widenStream(stream: Stream, byBytes: number): boolean {
    stream.sendWindowBytes += byBytes
    if (stream.sendWindowBytes > WINDOW_BYTES_MAX) return false
    if (stream.isBlocked) {
      this.#advance(stream)
      this.#onOutput()
    }
    return true
  }

  /** After a change of the client's table size, the next header block must begin with a size. */
  resetTable(): void {
    this.#mustResetTable = true
  }

  /** Drops the data and trailers that wait. */
  discard(stream: Stream): void {
    stream.waiting = []
    stream.trailers = undefined
    this.#unblock(stream)
  }

  #advance(stream: Stream): void {
    for (let data = stream.waiting[0]; data !== undefined; data = stream.waiting[0]) {
      const count = Math.min(
        data.length,
        this.#windowBytes,
        stream.sendWindowBytes,
        FRAME_BYTES_MAX,
      )
      if (count <= 0) {
        this.#blocked.add(stream)
        this.blockedSinceMs ??= Date.now()
        return
      }
      this.#windowBytes -= count
      stream.sendWindowBytes -= count
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
    const headerBlock = this.#withTableSize(responseHeaders)
    this.outbox.write(frame(frameTypes.headers, flags.endHeaders, stream.id, headerBlock))
  }

  #writeEnd(stream: Stream, headerBlock: Buffer): void {
    this.outbox.write(endFrame(stream.id, this.#withTableSize(headerBlock)))
    this.#end(stream)
  }

  /** Ends a stream, and resets it with NO_ERROR if its request has not arrived completely. */
  #end(stream: Stream): void {
    if (!stream.isRequestComplete) {
      this.outbox.write(uint32Frame(frameTypes.reset, stream.id, errorCodes.none))
    }
    stream.isOpen = false
    this.#onEnd(stream)
    this.#onOutput()
  }

  #withTableSize(headerBlock: Buffer): Buffer {
    if (!this.#mustResetTable) return headerBlock
    this.#mustResetTable = false
    return Buffer.concat([emptyTable, headerBlock])
  }
}

function endFrame(streamId: number, headerBlock: Uint8Array): Buffer {
  return frame(frameTypes.headers, flags.endHeaders | flags.endStream, streamId, headerBlock)
}
