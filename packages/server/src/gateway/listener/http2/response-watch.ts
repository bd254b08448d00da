/**
 * Ends a response over HTTP/2 whose client takes nothing of it for `timeouts.send`: the window of
 * its stream stays closed while its connection could carry more. While the connection itself is
 * blocked, `SendWatch` measures the time for all its streams.
 */

import { constants, type Http2ServerResponse } from 'node:http2'
import type { SlowClients } from '../slow-clients.ts'
import { tcpHandleOf } from '../tcp-handle.ts'

export class ResponseWatch {
  readonly #outgoing: Http2ServerResponse
  readonly #slowClients: SlowClients
  readonly #timeoutMs: number
  #sinceMs = 0
  #waitingBytes = 0
  #hasListeners = false
  #isReset = false

  constructor(outgoing: Http2ServerResponse, slowClients: SlowClients, timeoutMs: number) {
    this.#outgoing = outgoing
    this.#slowClients = slowClients
    this.#timeoutMs = timeoutMs
  }

  /** Starts the timeout if bytes wait to be taken; it ends with the response or by `forget`. */
  watch(): void {
    const outgoing = this.#outgoing
    if (outgoing.writableLength === 0) return
    this.#sinceMs = performance.now()
    this.#waitingBytes = outgoing.writableLength
    this.#slowClients.watch(this.#look)
    if (this.#hasListeners) return
    this.#hasListeners = true
    outgoing.once('finish', this.forget).once('close', this.forget)
  }

  readonly forget = () => this.#slowClients.forget(this.#look)

  readonly #look = (nowMs: number) => {
    const { stream, writableLength } = this.#outgoing
    const { session } = stream
    const tcp = session?.socket === undefined ? undefined : tcpHandleOf(session.socket)
    const hasTaken = writableLength < this.#waitingBytes
    this.#waitingBytes = writableLength
    if (hasTaken || (tcp !== undefined && tcp.writeQueueSize > 0)) this.#sinceMs = nowMs
    // node:http2 reads nothing while a write is blocked, and ignores that a reset fails the write.
    else if (tcp === undefined || tcp.getpeername({}) !== 0) session?.destroy()
    else if (nowMs - this.#sinceMs > this.#timeoutMs) this.#end(nowMs)
  }

  #end(nowMs: number): void {
    const { stream } = this.#outgoing
    // A session that does not get its reset out in the same time again does not work.
    if (this.#isReset) stream.session?.destroy()
    else stream.close(constants.NGHTTP2_INTERNAL_ERROR)
    this.#isReset = true
    this.#sinceMs = nowMs
  }
}
