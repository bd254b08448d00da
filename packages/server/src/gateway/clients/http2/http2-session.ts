/**
 * Decides when the connection of an HTTP/2 client is closed. Its requests are read elsewhere.
 *
 * node:http2 reports a stream when its header block is complete, and no bytes before that. nghttp2
 * counts the stream from the first frame of the block, which shows that one is arriving.
 */

import { constants, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { Turns } from './turns.ts'

export interface Http2SessionOptions {
  readonly timeouts: Http2Timeouts
  readonly streamsMax: number
  /** Called when the session is closed because its client floods it with frames. */
  onAttack(): void
}

export interface Http2Timeouts {
  /** For a header block to arrive, and from a new connection to the first one. */
  readonly headers: number
  /** Without activity. */
  readonly keepAlive: number
}

/** Long enough for GOAWAY to arrive; a client that does not close its side then is disconnected. */
const LINGER_MS = 2_000

/** Larger frames cost less time than their bytes take on a fast network. */
const SMALL_FRAME_BYTES_MAX = 64

/** Small frames up to this number are free: a client may write a body in single bytes. */
const SMALL_FRAMES_MAX = 2_000

/** More than people or devices cause; 100 such connections take a third of a core. */
const SMALL_FRAMES_PER_SECOND = 1_000

/**
 * A later reset is not a rapid one: as at most `streamsMax` streams are open, it costs no more than
 * a request. The deadline of the client may have passed.
 */
const RAPID_MS_MAX = 100

/**
 * Rapid resets that a client earns per second, besides one for each stream that it does not reset:
 * more than a person causes by typing into a search field or moving a map.
 */
const RAPID_RESETS_PER_SECOND = 33

/** All resets, per stream that a client may have open, at once and per second: leaving a page. */
const RESETS_PER_STREAM = 1.5

/** NGHTTP2_ERR_FLOODED: too many frames that need a response, such as SETTINGS. */
const FLOODED = -904

/** Too many invalid frames, or streams beyond those that the client may have open. */
const TOO_MANY_INVALID = 'ERR_HTTP2_TOO_MANY_INVALID_FRAMES'

export class Http2Session {
  readonly #session: ServerHttp2Session
  readonly #socket: Socket
  readonly #timeouts: Http2Timeouts
  readonly #onAttack: () => void
  /** Decides when its requests are handled. */
  readonly turns = new Turns()
  readonly #startMs = performance.now()
  /** The last stream whose header block is known to be complete. */
  #lastComplete = 0
  /** When a check found a header block that is arriving. */
  #blockSinceMs: number | undefined
  /** When a check found the session closed and its socket open. */
  #closedSinceMs: number | undefined

  readonly #smallFrames = new FrameBudget(SMALL_FRAMES_MAX, SMALL_FRAMES_PER_SECOND)
  /**
   * A browser that leaves a page resets all its open streams at once. The budget is twice their
   * number, because each stream adds one and each reset takes two.
   */
  readonly #rapidResets: FrameBudget
  readonly #resets: FrameBudget

  /** `socket` is that of TLS, to which the session gives no access. */
  constructor(session: ServerHttp2Session, socket: Socket, options: Http2SessionOptions) {
    const { timeouts, streamsMax, onAttack } = options
    this.#session = session
    this.#socket = socket
    this.#timeouts = timeouts
    this.#onAttack = onAttack
    this.#rapidResets = new FrameBudget(2 * streamsMax, RAPID_RESETS_PER_SECOND, streamsMax)
    const resetsMax = streamsMax * RESETS_PER_STREAM
    this.#resets = new FrameBudget(resetsMax, resetsMax)
    session.on('error', this.#onError)
    // A client that has closed its side cannot open a window, so a blocked response never ends.
    session.socket.once('end', () => session.destroy())
    session.on('stream', this.#onStream)
    session.setTimeout(timeouts.keepAlive, () => this.drain())
  }

  /**
   * Asks the client to open no more streams, and closes the connection when all streams have ended.
   * GOAWAY names the last stream that is served, so a client may safely retry later ones elsewhere.
   * nghttp2 ignores new streams after any GOAWAY, so it is sent only once.
   * https://www.rfc-editor.org/rfc/rfc9113#section-6.8
   */
  drain(): void {
    if (!this.#session.destroyed) this.#session.close()
  }

  /** Counts a frame of a body. Too many small frames close the connection. */
  countFrame(bytes: number): void {
    if (bytes > SMALL_FRAME_BYTES_MAX || this.#session.destroyed) return
    if (this.#smallFrames.take()) return
    this.#closeForFlood('the client sends too many small frames')
    this.#onAttack()
  }

  /** Closes a connection that has taken too long. */
  checkTimeouts(nowMs: number): void {
    const hasBegun = this.#lastComplete > 0
    if (this.#session.destroyed) {
      this.#closedSinceMs ??= nowMs
      if (nowMs - this.#closedSinceMs > LINGER_MS) this.#socket.destroy()
    } else if (this.#isBlockLate(nowMs)) this.#socket.destroy()
    else if (!hasBegun && nowMs - this.#startMs > this.#timeouts.headers) this.#session.destroy()
  }

  /** node:http2 closes a session that is flooded, which costs a handshake each time. */
  readonly #onError = (error: Error & { readonly code?: string; readonly errno?: number }) => {
    if (error.errno === FLOODED || error.code === TOO_MANY_INVALID) this.#onAttack()
    this.#session.destroy()
  }

  readonly #onStream = (stream: ServerHttp2Stream) => {
    this.#lastComplete = stream.id ?? 0
    const startMs = performance.now()
    this.#rapidResets.give()
    stream.once('aborted', () => this.#onReset(startMs))
  }

  /** A stream that is not reset earns one reset; one that is loses that and another. */
  #onReset(startMs: number): void {
    if (this.#session.destroyed) return
    const isRapid = performance.now() - startMs <= RAPID_MS_MAX
    const isAttack = isRapid && !this.#rapidResets.take(2)
    if (isAttack || !this.#resets.take()) this.#closeForFlood('the client resets too many streams')
    if (isAttack) this.#onAttack()
  }

  #closeForFlood(text: string): void {
    if (this.#session.destroyed) return
    this.#session.destroy(new Error(text), constants.NGHTTP2_ENHANCE_YOUR_CALM)
  }

  #isBlockLate(nowMs: number): boolean {
    const { lastProcStreamID: last = 0 } = this.#session.state
    if (last <= this.#lastComplete) this.#blockSinceMs = undefined
    else if (this.#blockSinceMs === undefined) {
      this.#blockSinceMs = nowMs
      this.#ping(last)
    }
    return this.#blockSinceMs !== undefined && nowMs - this.#blockSinceMs > this.#timeouts.headers
  }

  /**
   * A refused stream is not reported either. No other frame may interrupt a header block, so a
   * client that responds to a PING has completed the block.
   * https://www.rfc-editor.org/rfc/rfc9113#section-4.3
   */
  #ping(last: number): void {
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

  constructor(max: number, perSecond: number, left = max) {
    this.#max = max
    this.#perSecond = perSecond
    this.#left = left
  }

  take(units = 1): boolean {
    if (this.#left < units) this.#refill(performance.now())
    if (this.#left < units) return false
    this.#left -= units
    return true
  }

  give(): void {
    this.#left = Math.min(this.#max, this.#left + 1)
  }

  #refill(nowMs: number): void {
    const earned = ((nowMs - this.#sinceMs) / 1_000) * this.#perSecond
    this.#left = Math.min(this.#max, this.#left + earned)
    this.#sinceMs = nowMs
  }
}
