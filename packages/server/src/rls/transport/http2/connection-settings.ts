/** The settings of a client, and the numbers of its streams that were skipped or ended early. */

import {
  ConnectionError,
  errorCodes,
  settingIds,
  WINDOW_BYTES_DEFAULT,
  WINDOW_BYTES_MAX,
} from './frames.ts'

/** Streams that the server ended early: more than a client opens in one round trip. */
const ENDED_EARLY_MAX = 1_024

/** Ranges of stream numbers that a client has skipped. Clients hardly ever skip one. */
const SKIPPED_MAX = 64

export class ConnectionSettings {
  streamWindowBytes = WINDOW_BYTES_DEFAULT
  readonly #early = new Set<number>()
  readonly #skipped: (readonly [from: number, to: number])[] = []

  /** Applies a SETTINGS payload, and returns the changes that open streams need. */
  read(payload: Buffer): { windowChangeBytes: number; hasTableSize: boolean } {
    if (payload.length % 6 !== 0)
      throw new ConnectionError(errorCodes.frameSize, 'SETTINGS payload of invalid length')
    const before = this.streamWindowBytes
    let hasTableSize = false
    for (let at = 0; at < payload.length; at += 6) {
      const id = payload.readUInt16BE(at)
      const value = payload.readUInt32BE(at + 2)
      if (id === settingIds.headerTableSize) hasTableSize = true
      if (id === settingIds.enablePush && value > 1) {
        throw new ConnectionError(errorCodes.protocol, 'invalid SETTINGS_ENABLE_PUSH')
      }
      if (id === settingIds.maxFrameSize && (value < 16_384 || value > 16_777_215)) {
        throw new ConnectionError(errorCodes.protocol, 'invalid SETTINGS_MAX_FRAME_SIZE')
      }
      if (id !== settingIds.initialWindowSize) continue
      if (value > WINDOW_BYTES_MAX) {
        throw new ConnectionError(errorCodes.flowControl, 'invalid SETTINGS_INITIAL_WINDOW_SIZE')
      }
      this.streamWindowBytes = value
    }
    return { windowChangeBytes: this.streamWindowBytes - before, hasTableSize }
  }

  /** Remembers the numbers between `lastId` and `id`. */
  opened(id: number, lastId: number): void {
    if (id <= lastId + 2 || this.#skipped.length >= SKIPPED_MAX) return
    this.#skipped.push([lastId + 1, id - 1])
  }

  /** Returns the error for headers of a stream that is no longer open. */
  closedError(id: number): ConnectionError {
    const isSkipped = this.#skipped.some(([from, to]) => id >= from && id <= to)
    return isSkipped
      ? new ConnectionError(errorCodes.protocol, 'stream number below the last one')
      : new ConnectionError(errorCodes.streamClosed, 'HEADERS on a closed stream')
  }

  /** Remembers a stream that ended before its request: its frames may still arrive. */
  endedEarly(id: number): void {
    if (this.#early.size >= ENDED_EARLY_MAX) this.#early.clear()
    this.#early.add(id)
  }

  hasEndedEarly(id: number): boolean {
    return this.#early.has(id)
  }
}
