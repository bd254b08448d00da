/**
 * Finds a client that takes no bytes for `timeouts.send` while bytes wait for it. Bytes in the
 * kernel's send buffer count as taken: only bytes that do not fit into it wait. A client that reads
 * slowly makes room in it, and keeps its connection. The time of a whole response is not measured.
 */

import type { Socket } from 'node:net'
import { tcpHandleOf } from './tcp-handle.ts'

export class SendWatch {
  readonly #socket: Socket
  readonly #timeoutMs: number
  /** The time of the last look at which no bytes waited or some had been taken. */
  #sinceMs = performance.now()
  #takenBytes = 0

  /** `socket` is the TCP socket, also below TLS. */
  constructor(socket: Socket, timeoutMs: number) {
    this.#socket = socket
    this.#timeoutMs = timeoutMs
  }

  /** Returns whether the client has taken nothing for too long. */
  isLate(nowMs: number): boolean {
    const tcp = tcpHandleOf(this.#socket)
    if (tcp === undefined) return false
    const queuedBytes = tcp.writeQueueSize
    const takenBytes = queuedBytes === 0 ? 0 : tcp.bytesWritten - queuedBytes
    if (queuedBytes === 0 || takenBytes !== this.#takenBytes) {
      this.#takenBytes = takenBytes
      this.#sinceMs = nowMs
    }
    return nowMs - this.#sinceMs > this.#timeoutMs
  }
}
