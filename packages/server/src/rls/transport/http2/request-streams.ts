/**
 * The requests of a connection, from their headers to the handler. Keeps the stream states of
 * https://www.rfc-editor.org/rfc/rfc9113#section-5.1 that a server without push can have. Throws if
 * a client breaks a rule; the connection then ends the stream or itself.
 */

import { MESSAGE_BYTES_MAX, MESSAGE_PREFIX_BYTES, type RpcHandler, rpcStatus } from '../../rpc.ts'
import { Budget } from './budget.ts'
import type { ConnectionSettings } from './connection-settings.ts'
import { ConnectionError, errorCodes, flags, flood, STREAM_ID_MAX, StreamError } from './frames.ts'
import { type DecodedBlock, HeaderBlocks } from './hpack/header-blocks.ts'
import type { RequestHead } from './request-head.ts'
import type { ResponseWriter } from './response-writer.ts'
import { Stream } from './stream.ts'

/** The longest message fits, so the window of a stream is never widened. */
export const STREAM_WINDOW_BYTES = 2 * MESSAGE_BYTES_MAX

/** Streams that are cancelled or malformed: a stalled Envoy cancels many at once. */
const RESETS = { burst: 10_000, perSecond: 1_000 }

const BODY_BYTES_MAX = MESSAGE_BYTES_MAX + MESSAGE_PREFIX_BYTES

export interface RequestStreamsParts {
  readonly handler: RpcHandler
  readonly streamsMax: number
  readonly responses: ResponseWriter
  readonly peer: ConnectionSettings
  /** Called for every complete request. */
  readonly onRequest: () => void
}

export class RequestStreams {
  readonly headerBlocks = new HeaderBlocks()
  readonly #parts: RequestStreamsParts
  readonly #streams = new Map<number, Stream>()
  readonly #resets = new Budget(RESETS.burst, RESETS.perSecond)
  /** Cancelled streams whose handler has not finished. */
  #orphans = 0
  lastId = 0
  /** The last stream that is accepted; lower after GOAWAY. */
  lastAcceptedId = STREAM_ID_MAX

  constructor(parts: RequestStreamsParts) {
    this.#parts = parts
  }

  /** Streams without a complete response. */
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
    if (id % 2 === 0) throw new ConnectionError(errorCodes.protocol, 'HEADERS on an even stream')
    this.#onHeaderBlock(id, this.headerBlocks.begin(flag, id, bytes, start, end))
  }

  onContinuation(flag: number, id: number, bytes: Buffer, start: number, end: number): void {
    this.#onHeaderBlock(id, this.headerBlocks.continue(flag, id, bytes, start, end))
  }

  onData(flag: number, id: number, bytes: Buffer, start: number, end: number): void {
    const stream = this.#streams.get(id)
    if (stream === undefined) {
      this.#onLateData(id)
      return
    }
    if (stream.isRequestComplete) throw new StreamError(id, errorCodes.streamClosed)
    stream.receiveWindowBytes -= end - start
    if (stream.receiveWindowBytes < 0) throw new StreamError(id, errorCodes.flowControl)
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
      throw new ConnectionError(errorCodes.protocol, 'RST_STREAM on an idle stream')
    }
    if (!this.#resets.take()) throw flood('resets')
    const stream = this.#streams.get(id)
    if (stream !== undefined) this.#drop(stream)
  }

  /** Resets a stream on which the client broke a rule. */
  reset({ streamId, code }: StreamError): void {
    if (!this.#resets.take()) throw flood('malformed streams')
    this.#parts.responses.reset(streamId, code)
    this.#parts.peer.endedEarly(streamId)
    const stream = this.#streams.get(streamId)
    if (stream !== undefined) this.#drop(stream)
  }

  /** Called when a response is complete, or when the handler responds to a cancelled stream. */
  onEnd(stream: Stream): void {
    if (!this.#streams.delete(stream.id)) {
      if (stream.isHandled && this.#orphans > 0) this.#orphans--
      stream.isHandled = false
      return
    }
    if (!stream.isRequestComplete) this.#parts.peer.endedEarly(stream.id)
  }

  dropAll(): void {
    for (const stream of this.#streams.values()) this.#drop(stream)
  }

  #onHeaderBlock(id: number, head: DecodedBlock): void {
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
    const isInvalid = typeof head === 'string' || this.headerBlocks.dependsOn === id
    if (isInvalid) throw new StreamError(id, errorCodes.protocol)
    const isFull = this.#streams.size + this.#orphans >= streamsMax
    if (id > this.lastAcceptedId || isFull) throw new StreamError(id, errorCodes.refusedStream)
    if (head.isMalformed) throw new StreamError(id, errorCodes.protocol)
    if (head.isTooLarge) throw new StreamError(id, errorCodes.enhanceYourCalm)
    this.#open(id, head)
  }

  #open(id: number, head: RequestHead): void {
    const { responses, peer } = this.#parts
    const stream = new Stream(responses, id, head, [STREAM_WINDOW_BYTES, peer.streamWindowBytes])
    this.#streams.set(id, stream)
    stream.isRequestComplete = this.headerBlocks.endsStream
    if (stream.isRequestComplete) this.#onComplete(stream)
  }

  #onTrailers(stream: Stream, isValid: boolean): void {
    if (stream.isRequestComplete) throw new StreamError(stream.id, errorCodes.streamClosed)
    if (!isValid || !this.headerBlocks.endsStream)
      throw new StreamError(stream.id, errorCodes.protocol)
    stream.isRequestComplete = true
    this.#onComplete(stream)
  }

  /** DATA may still arrive for a stream that the server ended early. */
  #onLateData(id: number): void {
    if (id > this.lastId) throw new ConnectionError(errorCodes.protocol, 'DATA on an idle stream')
    if (!this.#parts.peer.hasEndedEarly(id)) throw new StreamError(id, errorCodes.streamClosed)
  }

  #onComplete(stream: Stream): void {
    const { handler, responses, onRequest } = this.#parts
    const { contentLength } = stream.head
    if (contentLength !== undefined && contentLength !== stream.end - stream.start) {
      throw new StreamError(stream.id, errorCodes.protocol)
    }
    onRequest()
    const refusal = refusalOf(stream.head)
    if (refusal !== undefined) {
      responses.refuse(stream, refusal)
      return
    }
    stream.isHandled = true
    try {
      handler(stream)
    } catch {
      stream.finish(rpcStatus.internal, '')
    }
  }

  /** Drops a cancelled stream. A running handler counts as a stream until it finishes. */
  #drop(stream: Stream): void {
    this.#streams.delete(stream.id)
    const isRunning = stream.isOpen && stream.isHandled && stream.trailers === undefined
    this.#parts.responses.discard(stream)
    stream.isOpen = false
    if (!isRunning) return
    this.#orphans++
    stream.onCancel?.()
  }
}

/** Returns the HTTP status for a request that is not gRPC; undefined for gRPC. */
export function refusalOf(head: Pick<RequestHead, 'method' | 'contentType'>): number | undefined {
  if (head.method !== 'POST') return 405
  return head.contentType.startsWith('application/grpc') ? undefined : 415
}
