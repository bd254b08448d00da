/**
 * Applies `timeouts.send` to a response over HTTP/2: the window of its stream stays closed while
 * the connection could carry more. While the connection itself is blocked, `SendWatch` measures the
 * time for all its streams.
 */

import { constants, type Http2ServerResponse } from 'node:http2'
import { SendClock } from '../send-watch.ts'
import type { SlowClients } from '../slow-clients.ts'
import { tcpHandleOf } from '../tcp-handle.ts'

export class ResponseWatch {
  readonly #outgoing: Http2ServerResponse
  readonly #slowClients: SlowClients
  readonly #sendMs: number
  #clock: SendClock
  #hasListeners = false
  #isReset = false

  constructor(outgoing: Http2ServerResponse, slowClients: SlowClients, sendMs: number) {
    this.#outgoing = outgoing
    this.#slowClients = slowClients
    this.#sendMs = sendMs
    this.#clock = new SendClock(sendMs)
  }

  /** Starts the timeout if bytes wait; it ends with the response or by `forget`. */
  watch(): void {
    const outgoing = this.#outgoing
    if (outgoing.writableLength === 0) return
    this.#clock = new SendClock(this.#sendMs)
    this.#slowClients.watch(this.#check)
    if (this.#hasListeners) return
    this.#hasListeners = true
    outgoing.once('finish', this.forget).once('close', this.forget)
  }

  readonly forget = () => this.#slowClients.forget(this.#check)

  readonly #check = (nowMs: number) => {
    const { stream, writableLength } = this.#outgoing
    const { session } = stream
    const tcp = session?.socket === undefined ? undefined : tcpHandleOf(session.socket)
    const isBlocked = tcp !== undefined && tcp.writeQueueSize > 0
    const isLate = this.#clock.isLate(nowMs, isBlocked ? undefined : -writableLength)
    if (isBlocked) return
    // node:http2 does not read while a write is blocked, and ignores that a reset fails the write.
    if (tcp === undefined || tcp.getpeername({}) !== 0) session?.destroy()
    else if (isLate) this.#end()
  }

  #end(): void {
    const { stream } = this.#outgoing
    // A session that cannot send the reset within the same time is broken.
    if (this.#isReset) stream.session?.destroy()
    else stream.close(constants.NGHTTP2_INTERNAL_ERROR)
    this.#isReset = true
    this.#clock = new SendClock(this.#sendMs)
  }
}
