/**
 * The output of a connection: frames are appended to one buffer and written with one system call,
 * which costs as much as many responses. Bytes that the socket has are never overwritten.
 */

import type { Duplex } from 'node:stream'

/** Room for about 700 responses. */
const CHUNK_BYTES = 65_536

export class Outbox {
  readonly #socket: Duplex
  bytes = Buffer.allocUnsafeSlow(CHUNK_BYTES)
  #start = 0
  #end = 0

  constructor(socket: Duplex) {
    this.#socket = socket
  }

  /** Reserves `count` bytes in `bytes` and returns their offset. The caller fills all of them. */
  reserve(count: number): number {
    if (this.#end + count > this.bytes.length) {
      this.flush()
      this.bytes = Buffer.allocUnsafeSlow(Math.max(CHUNK_BYTES, count))
      this.#start = 0
      this.#end = 0
    }
    const at = this.#end
    this.#end += count
    return at
  }

  write(bytes: Uint8Array): void {
    const at = this.reserve(bytes.length)
    this.bytes.set(bytes, at)
  }

  flush(): void {
    if (this.#end === this.#start) return
    const chunk = this.bytes.subarray(this.#start, this.#end)
    this.#start = this.#end
    if (this.#socket.writable) this.#socket.write(chunk)
  }
}
