/** What a client has told of itself, and which of its streams are known to be over. */

import {
  ConnectionError,
  errorCodes,
  settingIds,
  WINDOW_BYTES_DEFAULT,
  WINDOW_BYTES_MAX,
} from './frames.ts'

/** Streams ended here of which frames may still be on their way: more than fit a round trip. */
const CUT_SHORT_MAX = 1_024

/** Ranges of numbers that a client has left out; it hardly ever leaves out one. */
const SKIPPED_MAX = 64

export class ConnectionSettings {
  streamWindow = WINDOW_BYTES_DEFAULT
  readonly #cutShort = new Set<number>()
  readonly #skipped: (readonly [from: number, to: number])[] = []

  /** What the settings change for streams that are open. */
  read(payload: Buffer): { windowChange: number; hasTableSize: boolean } {
    if (payload.length % 6 !== 0) throw new ConnectionError(errorCodes.frameSize, 'wrong settings')
    const before = this.streamWindow
    let hasTableSize = false
    for (let at = 0; at < payload.length; at += 6) {
      const id = payload.readUInt16BE(at)
      const value = payload.readUInt32BE(at + 2)
      if (id === settingIds.headerTableSize) hasTableSize = true
      if (id === settingIds.enablePush && value > 1) {
        throw new ConnectionError(errorCodes.protocol, 'push neither on nor off')
      }
      if (id === settingIds.maxFrameSize && (value < 16_384 || value > 16_777_215)) {
        throw new ConnectionError(errorCodes.protocol, 'a wrong frame size')
      }
      if (id !== settingIds.initialWindowSize) continue
      if (value > WINDOW_BYTES_MAX) {
        throw new ConnectionError(errorCodes.flowControl, 'a window that is too large')
      }
      this.streamWindow = value
    }
    return { windowChange: this.streamWindow - before, hasTableSize }
  }

  opened(id: number, lastId: number): void {
    if (id <= lastId + 2 || this.#skipped.length >= SKIPPED_MAX) return
    this.#skipped.push([lastId + 1, id - 1])
  }

  /** Why headers of a stream that is not open any more end the connection. */
  closedError(id: number): ConnectionError {
    const isSkipped = this.#skipped.some(([from, to]) => id >= from && id <= to)
    return isSkipped
      ? new ConnectionError(errorCodes.protocol, 'a stream number lower than the last')
      : new ConnectionError(errorCodes.streamClosed, 'headers of a closed stream')
  }

  cutShort(id: number): void {
    if (this.#cutShort.size >= CUT_SHORT_MAX) this.#cutShort.clear()
    this.#cutShort.add(id)
  }

  wasCutShort(id: number): boolean {
    return this.#cutShort.has(id)
  }
}
