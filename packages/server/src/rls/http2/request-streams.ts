/**
 * The requests of a connection, from their headers to the handler: the states of streams as
 * https://www.rfc-editor.org/rfc/rfc9113#section-5.1 has them, as far as a server sees them that
 * pushes nothing. What a client gets wrong is thrown; the connection decides what becomes of it.
 */

import { MESSAGE_BYTES_MAX, MESSAGE_PREFIX_BYTES, type RpcHandler, rpcStatus } from '../rpc.ts'
import { Budget } from './budget.ts'
import type { ConnectionSettings } from './connection-settings.ts'
import { ConnectionError, errorCodes, flags, flood, STREAM_ID_MAX, StreamError } from './frames.ts'
import { type Block, HeaderBlocks } from './header-blocks.ts'
import type { Replies } from './replies.ts'
import type { RequestHead } from './request-head.ts'
import { Stream } from './stream.ts'

/** A stream takes the longest message in one go, so that its window never has to be widened. */
export const STREAM_WINDOW_BYTES = 2 * MESSAGE_BYTES_MAX

/** Requests that a client gave up, or that it got wrong: a stalled Envoy gives up many at once. */
const RESETS = { burst: 10_000, perSecond: 1_000 }

const BODY_BYTES_MAX = MESSAGE_BYTES_MAX + MESSAGE_PREFIX_BYTES

export interface RequestStreamsParts {
  readonly handler: RpcHandler
  readonly streamsMax: number
  readonly replies: Replies
  readonly peer: ConnectionSettings
  /** Called for every request that has arrived. */
  readonly onRequest: () => void
}

export class RequestStreams {
  readonly blocks = new HeaderBlocks()
  readonly #parts: RequestStreamsParts
  readonly #streams = new Map<number, Stream>()
  readonly #resets = new Budget(RESETS.burst, RESETS.perSecond)
  /** Streams that the client gave up while the handler still works on them. */
  #orphans = 0
  lastId = 0
  /** The last stream that is still taken, once the client was asked to go. */
  lastTakenId = STREAM_ID_MAX

  constructor(parts: RequestStreamsParts) {
    this.#parts = parts
  }

  /** Those that are not answered yet. */
  get size(): number {
    return this.#streams.size
  }

  get(id: number): Stream | undefined {
    return this.#streams.get(id)
  }

  all(): Iterable<Stream> {
    return this.#streams.values()
  }

  onHeaders(flag: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id % 2 === 0) throw new ConnectionError(errorCodes.protocol, 'headers of no stream')
    this.#onBlock(id, this.blocks.begin(flag, id, bytes, start, end))
  }

  onContinuation(flag: number, id: number, bytes: Buffer, start: number, end: number): void {
    this.#onBlock(id, this.blocks.go(flag, id, bytes, start, end))
  }

  onData(flag: number, id: number, bytes: Buffer, start: number, end: number): void {
    const stream = this.#streams.get(id)
    if (stream === undefined) {
      this.#onLateData(id)
      return
    }
    if (stream.isRequestComplete) throw new StreamError(id, errorCodes.streamClosed)
    stream.receiveWindow -= end - start
    if (stream.receiveWindow < 0) throw new StreamError(id, errorCodes.flowControl)
    const isPadded = (flag & flags.padded) !== 0
    const from = isPadded ? start + 1 : start
    const to = isPadded ? end - (bytes[start] ?? 0) : end
    if (to < from) throw new ConnectionError(errorCodes.protocol, 'padding longer than its frame')
    const endsStream = (flag & flags.endStream) !== 0
    stream.isRequestComplete = endsStream
    if (stream.end - stream.start + to - from > BODY_BYTES_MAX) {
      stream.finish(rpcStatus.resourceExhausted, `more than ${MESSAGE_BYTES_MAX} bytes`)
    } else if (stream.end === 0 && endsStream) {
      stream.bytes = bytes
      stream.start = from
      stream.end = to
      this.#onComplete(stream)
    } else {
      stream.append(bytes.subarray(from, to))
      if (endsStream) this.#onComplete(stream)
    }
  }

  onReset(id: number): void {
    if (id === 0 || id > this.lastId) {
      throw new ConnectionError(errorCodes.protocol, 'a reset of an idle stream')
    }
    if (!this.#resets.take()) throw flood('resets')
    const stream = this.#streams.get(id)
    if (stream !== undefined) this.#drop(stream)
  }

  /** A stream that the client got wrong. Done too often, it is an attack. */
  reset({ streamId, code }: StreamError): void {
    if (!this.#resets.take()) throw flood('streams that had to be reset')
    this.#parts.replies.reset(streamId, code)
    this.#parts.peer.cutShort(streamId)
    const stream = this.#streams.get(streamId)
    if (stream !== undefined) this.#drop(stream)
  }

  /** An answer has been given, or was for nobody. */
  onEnd(stream: Stream): void {
    if (!this.#streams.delete(stream.id)) {
      if (stream.isHandled && this.#orphans > 0) this.#orphans--
      stream.isHandled = false
      return
    }
    if (!stream.isRequestComplete) this.#parts.peer.cutShort(stream.id)
  }

  dropAll(): void {
    for (const stream of this.#streams.values()) this.#drop(stream)
  }

  #onBlock(id: number, head: Block): void {
    if (head === undefined) return
    const stream = this.#streams.get(id)
    if (stream !== undefined) {
      this.#onTrailers(stream, head === 'trailers')
      return
    }
    const { peer, streamsMax } = this.#parts
    if (id <= this.lastId) throw peer.closedError(id)
    peer.opened(id, this.lastId)
    this.lastId = id
    const isAlien = typeof head === 'string' || this.blocks.dependsOn === id
    if (isAlien) throw new StreamError(id, errorCodes.protocol)
    const isFull = this.#streams.size + this.#orphans >= streamsMax
    if (id > this.lastTakenId || isFull) throw new StreamError(id, errorCodes.refusedStream)
    if (head.isMalformed) throw new StreamError(id, errorCodes.protocol)
    if (head.isTooLarge) throw new StreamError(id, errorCodes.enhanceYourCalm)
    this.#open(id, head)
  }

  #open(id: number, head: RequestHead): void {
    const { replies, peer } = this.#parts
    const stream = new Stream(replies, id, head, [STREAM_WINDOW_BYTES, peer.streamWindow])
    this.#streams.set(id, stream)
    stream.isRequestComplete = this.blocks.endsStream
    if (stream.isRequestComplete) this.#onComplete(stream)
  }

  #onTrailers(stream: Stream, isRight: boolean): void {
    if (stream.isRequestComplete) throw new StreamError(stream.id, errorCodes.streamClosed)
    if (!isRight || !this.blocks.endsStream) throw new StreamError(stream.id, errorCodes.protocol)
    stream.isRequestComplete = true
    this.#onComplete(stream)
  }

  /** Data of a stream that has ended here may be on its way, but not of one that never began. */
  #onLateData(id: number): void {
    if (id > this.lastId) throw new ConnectionError(errorCodes.protocol, 'data of an idle stream')
    if (!this.#parts.peer.wasCutShort(id)) throw new StreamError(id, errorCodes.streamClosed)
  }

  #onComplete(stream: Stream): void {
    const { handler, replies, onRequest } = this.#parts
    const { contentLength } = stream.head
    if (contentLength !== undefined && contentLength !== stream.end - stream.start) {
      throw new StreamError(stream.id, errorCodes.protocol)
    }
    onRequest()
    const refusal = refusalOf(stream.head)
    if (refusal !== undefined) {
      replies.refuse(stream, refusal)
      return
    }
    stream.isHandled = true
    try {
      handler(stream)
    } catch {
      stream.finish(rpcStatus.internal, '')
    }
  }

  /** Nobody waits for the answer. A handler that is at work still counts until it is done. */
  #drop(stream: Stream): void {
    this.#streams.delete(stream.id)
    const isAtWork = stream.isOpen && stream.isHandled && stream.trailers === undefined
    this.#parts.replies.forget(stream)
    stream.isOpen = false
    if (!isAtWork) return
    this.#orphans++
    stream.onGone?.()
  }
}

/** The status of HTTP for what is no gRPC. */
export function refusalOf(head: Pick<RequestHead, 'method' | 'contentType'>): number | undefined {
  if (head.method !== 'POST') return 405
  return head.contentType.startsWith('application/grpc') ? undefined : 415
}
