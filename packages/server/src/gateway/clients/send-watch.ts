/**
 * `timeouts.send`: how long a client may take no bytes while bytes wait for it, as `send_timeout`
 * of nginx. A slow client that takes some bytes in this time keeps its connection; the time of a
 * whole response is not measured. HTTP/1 and HTTP/2 use the same clock.
 */

import type { Socket } from 'node:net'
import { tcpHandleOf } from './tcp-handle.ts'

export class SendClock {
  readonly #timeoutMs: number
  /** The last check at which no bytes waited or some had been taken. */
  #sinceMs = performance.now()
  #takenBytes = Number.NEGATIVE_INFINITY

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /** `takenBytes` grows when the client takes bytes; undefined if no bytes wait for it. */
  isLate(nowMs: number, takenBytes: number | undefined): boolean {
    if (takenBytes === undefined || takenBytes > this.#takenBytes) this.#sinceMs = nowMs
    this.#takenBytes = takenBytes ?? Number.NEGATIVE_INFINITY
    return nowMs - this.#sinceMs > this.#timeoutMs
  }
}

/**
 * Watches a TCP connection. Bytes in the kernel's send buffer count as taken: only bytes that do
 * not fit into it wait, and a slow reader makes room in it.
 */
export class SendWatch {
  readonly #socket: Socket
  readonly #clock: SendClock

  /** `socket` is the TCP socket, also below TLS. */
  constructor(socket: Socket, timeoutMs: number) {
    this.#socket = socket
    this.#clock = new SendClock(timeoutMs)
  }

  /** Returns whether the client has taken no bytes for too long. */
  isLate(nowMs: number): boolean {
    const tcp = tcpHandleOf(this.#socket)
    if (tcp === undefined) return false
    const { writeQueueSize, bytesWritten } = tcp
    return this.#clock.isLate(nowMs, writeQueueSize > 0 ? bytesWritten - writeQueueSize : undefined)
  }
}
