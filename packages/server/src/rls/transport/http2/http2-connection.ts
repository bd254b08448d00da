/**
 * One HTTP/2 connection of a client, https://www.rfc-editor.org/rfc/rfc9113, as far as unary gRPC
 * needs it: no push, no priorities, no upgrade. A violation of the RFC ends the stream or the
 * connection. Budgets limit frames that are valid but rarely needed.
 */

import type { Duplex } from 'node:stream'
import type { RpcHandler } from '../../rpc.ts'
import { Budget } from './budget.ts'
import { ConnectionSettings } from './connection-settings.ts'
import { FrameReader } from './frame-reader.ts'
import {
  ConnectionError,
  errorCodes,
  flags,
  flood,
  frame,
  frameTypes,
  goAwayFrame,
  STREAM_ID_MAX,
  StreamError,
  settingIds,
  settingsFrame,
  uint32Frame,
  WINDOW_BYTES_DEFAULT,
} from './frames.ts'
import { HpackError } from './hpack/hpack-error.ts'
import { HEAD_BYTES_MAX } from './request-head.ts'
import { RequestStreams, STREAM_WINDOW_BYTES } from './request-streams.ts'
import { ResponseWriter } from './response-writer.ts'

/** Room for 16 of the longest messages; widened when half of it is used. */
const CONNECTION_WINDOW_BYTES = 1_048_576

/** Control and empty frames. A request adds to the budget: clients send control frames with it. */
const CONTROLS = { burst: 10_000, perSecond: 1_000, perRequest: 4 }

/** The output that may wait for a client; beyond it, the socket is paused. */
const OUTPUT_BYTES_MAX = 1_048_576

export interface ConnectionOptions {
  readonly handler: RpcHandler
  readonly streamsMax: number
}

export class Connection {
  readonly #socket: Duplex
  readonly #reader: FrameReader
  readonly #responses: ResponseWriter
  readonly #streams: RequestStreams
  readonly #controls = new Budget(CONTROLS.burst, CONTROLS.perSecond)
  readonly #peer = new ConnectionSettings()
  #receiveWindowBytes = CONNECTION_WINDOW_BYTES
  #isReading = false
  #isFlushing = false
  #isClosed = false
  lastReadMs = Date.now()
  /** When the output limit was exceeded, until the socket is drained. */
  stalledSinceMs: number | undefined
  /** When the frame or header block that is still incomplete began. */
  incompleteSinceMs: number | undefined
  /** Called when the client acknowledges the PING of `announceDrain`. */
  onDrainPing: (() => void) | undefined

  constructor(socket: Duplex, { handler, streamsMax }: ConnectionOptions) {
    this.#socket = socket
    this.#reader = new FrameReader((...parts) => this.#onFrame(...parts))
    this.#responses = new ResponseWriter(
      socket,
      (stream) => this.#streams.onEnd(stream),
      () => this.#onOutput(),
    )
    this.#streams = new RequestStreams({
      handler,
      streamsMax,
      responses: this.#responses,
      peer: this.#peer,
      onRequest: () => this.#controls.add(CONTROLS.perRequest),
    })
    this.#responses.write(
      settingsFrame([
        [settingIds.maxConcurrentStreams, streamsMax],
        [settingIds.initialWindowSize, STREAM_WINDOW_BYTES],
        [settingIds.maxHeaderListSize, HEAD_BYTES_MAX],
      ]),
    )
    const moreBytes = CONNECTION_WINDOW_BYTES - WINDOW_BYTES_DEFAULT
    this.#responses.write(uint32Frame(frameTypes.windowUpdate, 0, moreBytes))
  }

  /** True if the client has sent the HTTP/2 preface. */
  get hasPreface(): boolean {
    return this.#reader.hasPreface
  }

  /** Calls without a complete response. */
  get calls(): number {
    return this.#streams.size
  }

  /** When data began to wait for the client's windows. */
  get blockedSinceMs(): number | undefined {
    return this.#responses.blockedSinceMs
  }

  read(chunk: Buffer): void {
    if (this.#isClosed) return
    this.lastReadMs = Date.now()
    this.#isReading = true
    try {
      this.#reader.read(chunk)
    } catch (error) {
      this.#fail(error)
    }
    this.#isReading = false
    const isIncomplete = this.#reader.isWithinFrame || this.#streams.headerBlocks.isUnfinished
    this.incompleteSinceMs = isIncomplete ? (this.incompleteSinceMs ?? this.lastReadMs) : undefined
    this.#responses.outbox.flush()
    if (this.#socket.writableLength <= OUTPUT_BYTES_MAX) return
    this.stalledSinceMs ??= Date.now()
    this.#socket.pause()
  }

  /** Called when the socket has written its whole buffer to the kernel. */
  onDrain(): void {
    this.stalledSinceMs = undefined
    this.#socket.resume()
  }

  /** Sends a GOAWAY that still accepts streams, because some may be in flight, and a PING. */
  announceDrain(): void {
    this.#responses.write(goAwayFrame(STREAM_ID_MAX, errorCodes.none, ''))
    this.#responses.write(frame(frameTypes.ping, 0, 0, Buffer.from('drain\0\0\0', 'latin1')))
  }

  /** Sends the final GOAWAY: new streams are refused from now on. */
  refuseStreams(): void {
    this.#streams.lastAcceptedId = Math.min(this.#streams.lastAcceptedId, this.#streams.lastId)
    this.#responses.write(goAwayFrame(this.#streams.lastAcceptedId, errorCodes.none, ''))
  }

  ping(): void {
    this.#responses.write(frame(frameTypes.ping, 0, 0, Buffer.from('alive?\0\0', 'latin1')))
  }

  /** Ends the connection with GOAWAY. */
  close(code: number, text: string): void {
    if (this.#isClosed) return
    this.#responses.outbox.write(goAwayFrame(this.#streams.lastId, code, text))
    this.#responses.outbox.flush()
    this.#socket.end()
    this.onClosed()
  }

  /** Called when the socket is closed or about to close: drops all calls. */
  onClosed(): void {
    this.#isClosed = true
    this.#streams.dropAll()
  }

  #fail(error: unknown): void {
    if (error instanceof ConnectionError) this.close(error.code, error.message)
    else if (error instanceof HpackError) this.close(errorCodes.compression, error.message)
    else this.close(errorCodes.internal, '')
  }

  #onOutput(): void {
    if (this.#isReading || this.#isFlushing) return
    this.#isFlushing = true
    // After all callbacks of this turn, so that responses to one reply of the store share a write.
    setImmediate(() => {
      this.#isFlushing = false
      this.#responses.outbox.flush()
    })
  }

  #onFrame(
    type: number,
    flag: number,
    id: number,
    bytes: Buffer,
    start: number,
    end: number,
  ): void {
    if (this.#isClosed) return
    if (!this.#streams.headerBlocks.isUnfinished) this.incompleteSinceMs = undefined
    else if (type !== frameTypes.continuation) {
      throw new ConnectionError(errorCodes.protocol, 'frame within a header block')
    }
    try {
      if (type === frameTypes.data) {
        this.#receive(flag, id, end - start)
        this.#streams.onData(flag, id, bytes, start, end)
      } else if (type === frameTypes.headers) {
        this.#streams.onHeaders(flag, id, bytes, start, end)
      } else if (type === frameTypes.continuation) {
        this.#streams.onContinuation(flag, id, bytes, start, end)
      } else this.#onControl(type, flag, id, bytes.subarray(start, end))
    } catch (error) {
      if (!(error instanceof StreamError)) throw error
      this.#streams.reset(error)
    }
  }

  /** Counts DATA against the window of the connection, also for streams that are closed. */
  #receive(flag: number, id: number, size: number): void {
    if (id === 0) throw new ConnectionError(errorCodes.protocol, 'DATA on stream 0')
    this.#receiveWindowBytes -= size
    if (this.#receiveWindowBytes < 0)
      throw new ConnectionError(errorCodes.flowControl, 'more DATA than the window')
    if (this.#receiveWindowBytes < CONNECTION_WINDOW_BYTES / 2) {
      const moreBytes = CONNECTION_WINDOW_BYTES - this.#receiveWindowBytes
      this.#receiveWindowBytes += moreBytes
      this.#responses.write(uint32Frame(frameTypes.windowUpdate, 0, moreBytes))
    }
    if (size > 0 || (flag & flags.endStream) !== 0) return
    if (!this.#controls.take()) throw flood('empty frames')
  }

  #onControl(type: number, flag: number, id: number, payload: Buffer): void {
    if (!this.#controls.take()) throw flood('control frames')
    switch (type) {
      case frameTypes.pushPromise:
        throw new ConnectionError(errorCodes.protocol, 'PUSH_PROMISE from a client')
      case frameTypes.priority:
        checkPriority(id, payload)
        break
      case frameTypes.reset:
        if (payload.length !== 4)
          throw new ConnectionError(errorCodes.frameSize, 'RST_STREAM of invalid length')
        this.#streams.onReset(id)
        break
      case frameTypes.settings:
        this.#onSettings(flag, id, payload)
        break
      case frameTypes.ping:
        this.#onPing(flag, id, payload)
        break
      case frameTypes.goAway:
        if (id !== 0) throw new ConnectionError(errorCodes.protocol, 'GOAWAY on a stream')
        break
      case frameTypes.windowUpdate:
        this.#onWindowUpdate(id, payload)
        break
    }
  }

  #onSettings(flag: number, id: number, payload: Buffer): void {
    if (id !== 0) throw new ConnectionError(errorCodes.protocol, 'SETTINGS on a stream')
    if ((flag & flags.ack) !== 0) {
      if (payload.length > 0)
        throw new ConnectionError(errorCodes.frameSize, 'SETTINGS ACK with a payload')
      return
    }
    const { windowChangeBytes, hasTableSize } = this.#peer.read(payload)
    if (hasTableSize) this.#responses.resetTable()
    this.#responses.write(frame(frameTypes.settings, flags.ack, 0, Buffer.alloc(0)))
    if (windowChangeBytes === 0) return
    for (const stream of this.#streams.all()) {
      if (this.#responses.widenStream(stream, windowChangeBytes)) continue
      throw new ConnectionError(errorCodes.flowControl, 'window too large')
    }
  }

  #onPing(flag: number, id: number, payload: Buffer): void {
    if (id !== 0) throw new ConnectionError(errorCodes.protocol, 'PING on a stream')
    if (payload.length !== 8)
      throw new ConnectionError(errorCodes.frameSize, 'PING of invalid length')
    if ((flag & flags.ack) === 0)
      this.#responses.write(frame(frameTypes.ping, flags.ack, 0, payload))
    else if (payload.toString('latin1', 0, 5) === 'drain') this.onDrainPing?.()
  }

  #onWindowUpdate(id: number, payload: Buffer): void {
    if (payload.length !== 4)
      throw new ConnectionError(errorCodes.frameSize, 'WINDOW_UPDATE of invalid length')
    const moreBytes = payload.readUInt32BE(0) & STREAM_ID_MAX
    if (id === 0) {
      if (moreBytes === 0) throw new ConnectionError(errorCodes.protocol, 'WINDOW_UPDATE of 0')
      this.#responses.widen(moreBytes)
      return
    }
    if (id > this.#streams.lastId)
      throw new ConnectionError(errorCodes.protocol, 'WINDOW_UPDATE on an idle stream')
    const stream = this.#streams.get(id)
    if (stream === undefined) return
    if (moreBytes === 0) throw new StreamError(id, errorCodes.protocol)
    if (!this.#responses.widenStream(stream, moreBytes))
      throw new StreamError(id, errorCodes.flowControl)
  }
}

/** Validates a PRIORITY frame, which has no effect: RFC 9113 deprecates priorities. */
function checkPriority(id: number, payload: Buffer): void {
  if (id === 0) throw new ConnectionError(errorCodes.protocol, 'PRIORITY on stream 0')
  if (payload.length !== 5) throw new StreamError(id, errorCodes.frameSize)
  const dependsOn = payload.readUInt32BE(0) & STREAM_ID_MAX
  if (dependsOn === id) throw new StreamError(id, errorCodes.protocol)
}
