/**
 * What goes out of a connection: frames are appended to one buffer and written together, because a
 * write costs as much as many answers. A part that was handed to the socket is never written again.
 */

import type { Duplex } from 'node:stream'

/** About seven hundred answers. */
const CHUNK_BYTES = 65_536

export class Outbox {
  readonly #socket: Duplex
  bytes = Buffer.allocUnsafeSlow(CHUNK_BYTES)
  #start = 0
  #end = 0

  constructor(socket: Duplex) {
    this.#socket = socket
  }

  /** Room for so many bytes in `bytes`, and where it begins. The caller fills all of it. */
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
    const part = this.bytes.subarray(this.#start, this.#end)
    this.#start = this.#end
    if (this.#socket.writable) this.#socket.write(part)
  }
}
