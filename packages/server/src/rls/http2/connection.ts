/**
 * One HTTP/2 connection of a client, https://www.rfc-editor.org/rfc/rfc9113, as far as unary gRPC
 * needs it: no push, no priorities, no upgrade. What a client may not do ends its stream or its
 * connection as the RFC says; what it may do but hardly needs is limited by budgets.
 */

import type { Duplex } from 'node:stream'
import type { RpcHandler } from '../rpc.ts'
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
import { HpackError } from './hpack-error.ts'
import { Replies } from './replies.ts'
import { HEAD_BYTES_MAX } from './request-head.ts'
import { RequestStreams, STREAM_WINDOW_BYTES } from './request-streams.ts'

/** Sixteen of the longest messages, thousands of usual ones; widened when half is used. */
const CONNECTION_WINDOW_BYTES = 1_048_576

/** Frames that ask for nothing; every request earns some, as clients send them along. */
const CONTROLS = { burst: 10_000, perSecond: 1_000, perRequest: 4 }

/** Where a client reads nothing, and this much waits for it, nothing is read from it. */
const OUTPUT_BYTES_MAX = 1_048_576

export interface ConnectionOptions {
  readonly handler: RpcHandler
  readonly streamsMax: number
}

export class Connection {
  readonly #socket: Duplex
  readonly #reader: FrameReader
  readonly #replies: Replies
  readonly #streams: RequestStreams
  readonly #controls = new Budget(CONTROLS.burst, CONTROLS.perSecond)
  readonly #peer = new ConnectionSettings()
  #receiveWindow = CONNECTION_WINDOW_BYTES
  #isReading = false
  #isFlushing = false
  #isClosed = false
  lastReadMs = Date.now()
  /** Since when the client reads nothing. */
  stuckSinceMs: number | undefined
  onDrainPing: (() => void) | undefined

  constructor(socket: Duplex, { handler, streamsMax }: ConnectionOptions) {
    this.#socket = socket
    this.#reader = new FrameReader((...parts) => this.#onFrame(...parts))
    this.#replies = new Replies(
      socket,
      (stream) => this.#streams.onEnd(stream),
      () => this.#onOutput(),
    )
    this.#streams = new RequestStreams({
      handler,
      streamsMax,
      replies: this.#replies,
      peer: this.#peer,
      onRequest: () => this.#controls.give(CONTROLS.perRequest),
    })
    this.#replies.write(
      settingsFrame([
        [settingIds.maxConcurrentStreams, streamsMax],
        [settingIds.initialWindowSize, STREAM_WINDOW_BYTES],
        [settingIds.maxHeaderListSize, HEAD_BYTES_MAX],
      ]),
    )
    const more = CONNECTION_WINDOW_BYTES - WINDOW_BYTES_DEFAULT
    this.#replies.write(uint32Frame(frameTypes.windowUpdate, 0, more))
  }

  /** Whether the client has begun to speak HTTP/2. */
  get isBegun(): boolean {
    return this.#reader.isBegun
  }

  /** Calls that are not answered yet. */
  get calls(): number {
    return this.#streams.size
  }

  get blockedSinceMs(): number | undefined {
    return this.#replies.blockedSinceMs
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
    this.#replies.outbox.flush()
    if (this.#socket.writableLength <= OUTPUT_BYTES_MAX) return
    this.stuckSinceMs ??= Date.now()
    this.#socket.pause()
  }

  /** The socket has taken everything. */
  onDrain(): void {
    this.stuckSinceMs = undefined
    this.#socket.resume()
  }

  /** Asks the client to go elsewhere; streams that are on their way are still taken. */
  askToGo(): void {
    this.#replies.write(goAwayFrame(STREAM_ID_MAX, errorCodes.none, ''))
    this.#replies.write(frame(frameTypes.ping, 0, 0, Buffer.from('drain\0\0\0', 'latin1')))
  }

  /** From now on nothing new is taken. */
  stopTaking(): void {
    this.#streams.lastTakenId = Math.min(this.#streams.lastTakenId, this.#streams.lastId)
    this.#replies.write(goAwayFrame(this.#streams.lastTakenId, errorCodes.none, ''))
  }

  ping(): void {
    this.#replies.write(frame(frameTypes.ping, 0, 0, Buffer.from('alive?\0\0', 'latin1')))
  }

  /** Ends it with a word for the client. */
  close(code: number, text: string): void {
    if (this.#isClosed) return
    this.#replies.outbox.write(goAwayFrame(this.#streams.lastId, code, text))
    this.#replies.outbox.flush()
    this.#socket.end()
    this.onClosed()
  }

  /** The socket is gone, or will be: nobody waits for answers any more. */
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
    // After all that is ready now, so that answers to one reply of the store go out together.
    setImmediate(() => {
      this.#isFlushing = false
      this.#replies.outbox.flush()
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
    if (this.#streams.blocks.isUnfinished && type !== frameTypes.continuation) {
      throw new ConnectionError(errorCodes.protocol, 'a frame within a header block')
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

  /** Counts data against the window of the connection, which is for all streams, open or not. */
  #receive(flag: number, id: number, size: number): void {
    if (id === 0) throw new ConnectionError(errorCodes.protocol, 'data of no stream')
    this.#receiveWindow -= size
    if (this.#receiveWindow < 0) throw new ConnectionError(errorCodes.flowControl, 'too much data')
    if (this.#receiveWindow < CONNECTION_WINDOW_BYTES / 2) {
      const more = CONNECTION_WINDOW_BYTES - this.#receiveWindow
      this.#receiveWindow += more
      this.#replies.write(uint32Frame(frameTypes.windowUpdate, 0, more))
    }
    if (size > 0 || (flag & flags.endStream) !== 0) return
    if (!this.#controls.take()) throw flood('empty frames')
  }

  #onControl(type: number, flag: number, id: number, payload: Buffer): void {
    if (!this.#controls.take()) throw flood('control frames')
    switch (type) {
      case frameTypes.pushPromise:
        throw new ConnectionError(errorCodes.protocol, 'a push from a client')
      case frameTypes.priority:
        checkPriority(id, payload)
        break
      case frameTypes.reset:
        if (payload.length !== 4) throw new ConnectionError(errorCodes.frameSize, 'a wrong reset')
        this.#streams.onReset(id)
        break
      case frameTypes.settings:
        this.#onSettings(flag, id, payload)
        break
      case frameTypes.ping:
        this.#onPing(flag, id, payload)
        break
      case frameTypes.goAway:
        if (id !== 0) throw new ConnectionError(errorCodes.protocol, 'goaway on a stream')
        break
      case frameTypes.windowUpdate:
        this.#onWindowUpdate(id, payload)
        break
    }
  }

  #onSettings(flag: number, id: number, payload: Buffer): void {
    if (id !== 0) throw new ConnectionError(errorCodes.protocol, 'settings of a stream')
    if ((flag & flags.ack) !== 0) {
      if (payload.length > 0)
        throw new ConnectionError(errorCodes.frameSize, 'an ack with settings')
      return
    }
    const { windowChange, hasTableSize } = this.#peer.read(payload)
    if (hasTableSize) this.#replies.resetTable()
    this.#replies.write(frame(frameTypes.settings, flags.ack, 0, Buffer.alloc(0)))
    if (windowChange === 0) return
    for (const stream of this.#streams.all()) {
      if (this.#replies.widenStream(stream, windowChange)) continue
      throw new ConnectionError(errorCodes.flowControl, 'a window that is too large')
    }
  }

  #onPing(flag: number, id: number, payload: Buffer): void {
    if (id !== 0) throw new ConnectionError(errorCodes.protocol, 'a ping on a stream')
    if (payload.length !== 8) throw new ConnectionError(errorCodes.frameSize, 'a wrong ping')
    if ((flag & flags.ack) === 0) this.#replies.write(frame(frameTypes.ping, flags.ack, 0, payload))
    else if (payload.toString('latin1', 0, 5) === 'drain') this.onDrainPing?.()
  }

  #onWindowUpdate(id: number, payload: Buffer): void {
    if (payload.length !== 4) throw new ConnectionError(errorCodes.frameSize, 'a wrong window')
    const more = payload.readUInt32BE(0) & STREAM_ID_MAX
    if (id === 0) {
      if (more === 0) throw new ConnectionError(errorCodes.protocol, 'a window that does not grow')
      this.#replies.widen(more)
      return
    }
    if (id > this.#streams.lastId) throw new ConnectionError(errorCodes.protocol, 'an idle stream')
    const stream = this.#streams.get(id)
    if (stream === undefined) return
    if (more === 0) throw new StreamError(id, errorCodes.protocol)
    if (!this.#replies.widenStream(stream, more)) throw new StreamError(id, errorCodes.flowControl)
  }
}

/** Priorities are read and have no effect, as RFC 9113 has it. */
function checkPriority(id: number, payload: Buffer): void {
  if (id === 0) throw new ConnectionError(errorCodes.protocol, 'a priority of no stream')
  if (payload.length !== 5) throw new StreamError(id, errorCodes.frameSize)
  const dependsOn = payload.readUInt32BE(0) & STREAM_ID_MAX
  if (dependsOn === id) throw new StreamError(id, errorCodes.protocol)
}
