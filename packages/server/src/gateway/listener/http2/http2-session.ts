/**
 * A connection of a client that speaks HTTP/2: when it ends. Its requests are read elsewhere.
 *
 * node:http2 reports a stream when its header block is complete, and does not report bytes before.
 * nghttp2 counts the stream from the first frame of the block, which shows that one is under way.
 */

import { constants, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { Turns } from './turns.ts'

export interface Http2Timeouts {
  /** For a header block to arrive, and from a new connection to the first one. */
  readonly headers: number
  /** Without any activity. */
  readonly keepAlive: number
}

/** Long enough for GOAWAY to arrive; a client that does not close its side then is disconnected. */
const LINGER_MS = 2_000

/** Larger frames cost less time than their bytes take on a fast network. */
const SMALL_FRAME_BYTES_MAX = 64

/** Small frames up to here are free: a body that a client writes in single bytes by mistake. */
const SMALL_FRAMES_MAX = 2_000

/** More than messages that people or devices cause; 100 such connections take a third of a core. */
const SMALL_FRAMES_PER_SECOND = 1_000

export class Http2Session {
  readonly #session: ServerHttp2Session
  readonly #socket: Socket
  readonly #timeouts: Http2Timeouts
  /** When its requests are handled. */
  readonly turns = new Turns()
  readonly #startMs = performance.now()
  /** The last stream whose header block is known to be complete. */
  #lastComplete = 0
  /** The time of the look that found a header block under way. */
  #blockSinceMs: number | undefined
  /** The time of the look that found the session closed, while its socket is still open. */
  #closedSinceMs: number | undefined

  readonly #smallFrames = new FrameBudget(SMALL_FRAMES_MAX, SMALL_FRAMES_PER_SECOND)

  /** `socket` is that of TLS, which the session does not give out. */
  constructor(session: ServerHttp2Session, socket: Socket, timeouts: Http2Timeouts) {
    this.#session = session
    this.#socket = socket
    this.#timeouts = timeouts
    session.on('error', () => session.destroy())
    // A client that has ended its side cannot open a window, so a blocked response never ends.
    session.socket.once('end', () => session.destroy())
    session.on('stream', this.#onStream)
    session.setTimeout(timeouts.keepAlive, () => this.sendAway())
  }

  /**
   * Asks the client to open no more streams, and closes the connection when all streams have ended.
   * GOAWAY names the last stream that is served, so a client may safely retry later ones elsewhere.
   * nghttp2 ignores new streams after any GOAWAY, so it is sent only once.
   * https://www.rfc-editor.org/rfc/rfc9113#section-6.8
   */
  sendAway(): void {
    if (!this.#session.destroyed) this.#session.close()
  }

  /** Counts a frame of a body. Too many small ones end the connection. */
  countFrame(bytes: number): void {
    if (bytes > SMALL_FRAME_BYTES_MAX || this.#smallFrames.take()) return
    if (this.#session.destroyed) return
    const error = new Error('the client sends too many small frames')
    this.#session.destroy(error, constants.NGHTTP2_ENHANCE_YOUR_CALM)
  }

  /** Ends a connection that has taken too long. */
  look(nowMs: number): void {
    const hasBegun = this.#lastComplete > 0
    if (this.#session.destroyed) {
      this.#closedSinceMs ??= nowMs
      if (nowMs - this.#closedSinceMs > LINGER_MS) this.#socket.destroy()
    } else if (this.#isBlockLate(nowMs)) this.#socket.destroy()
    else if (!hasBegun && nowMs - this.#startMs > this.#timeouts.headers) this.#session.destroy()
  }

  readonly #onStream = ({ id = 0 }: ServerHttp2Stream) => {
    this.#lastComplete = id
  }

  #isBlockLate(nowMs: number): boolean {
    const { lastProcStreamID: last = 0 } = this.#session.state
    if (last <= this.#lastComplete) this.#blockSinceMs = undefined
    else if (this.#blockSinceMs === undefined) {
      this.#blockSinceMs = nowMs
      this.#askAbout(last)
    }
    return this.#blockSinceMs !== undefined && nowMs - this.#blockSinceMs > this.#timeouts.headers
  }

  /**
   * A stream that is refused is not reported either. No frame may stand within a header block, so a
   * client that answers a PING has ended the block.
   * https://www.rfc-editor.org/rfc/rfc9113#section-4.3
   */
  #askAbout(last: number): void {
    this.#session.ping((error) => {
      if (error === null) this.#lastComplete = Math.max(this.#lastComplete, last)
    })
  }
}

/** A token bucket; its clock is read only when it is empty. */
class FrameBudget {
  readonly #max: number
  readonly #perSecond: number
  #left: number
  #sinceMs = performance.now()

  constructor(max: number, perSecond: number) {
    this.#max = max
    this.#perSecond = perSecond
    this.#left = max
  }

  take(): boolean {
    if (this.#left < 1) this.#refill(performance.now())
    if (this.#left < 1) return false
    this.#left -= 1
    return true
  }

  #refill(nowMs: number): void {
    const earned = ((nowMs - this.#sinceMs) / 1_000) * this.#perSecond
    this.#left = Math.min(this.#max, this.#left + earned)
    this.#sinceMs = nowMs
  }
}
