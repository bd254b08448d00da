/** Cuts what comes from a socket into frames, whatever pieces it comes in. */

import {
  ConnectionError,
  errorCodes,
  FRAME_BYTES_MAX,
  FRAME_HEADER_BYTES,
  frameTypes,
  PREFACE,
  STREAM_ID_MAX,
} from './frames.ts'

/** A frame; its payload is `bytes` from `start` to `end`, and valid during the call only. */
export type OnFrame = (
  type: number,
  flag: number,
  streamId: number,
  bytes: Buffer,
  start: number,
  end: number,
) => void

export class FrameReader {
  readonly #onFrame: OnFrame
  #rest: Buffer | undefined
  #isBegun = false

  constructor(onFrame: OnFrame) {
    this.#onFrame = onFrame
  }

  /** Whether the client has said that it speaks HTTP/2 and sent its settings. */
  get isBegun(): boolean {
    return this.#isBegun
  }

  /** Throws ConnectionError where it is no HTTP/2. */
  read(chunk: Buffer): void {
    const bytes = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk])
    this.#rest = undefined
    let at = 0
    if (!this.#isBegun) {
      const begin = this.#begin(bytes)
      if (begin === undefined) return
      at = begin
    }
    const { length } = bytes
    while (length - at >= FRAME_HEADER_BYTES) {
      const size =
        ((bytes[at] as number) << 16) | ((bytes[at + 1] as number) << 8) | (bytes[at + 2] as number)
      if (size > FRAME_BYTES_MAX) throw new ConnectionError(errorCodes.frameSize, 'a long frame')
      const start = at + FRAME_HEADER_BYTES
      const end = start + size
      if (end > length) break
      const streamId = bytes.readUInt32BE(at + 5) & STREAM_ID_MAX
      this.#onFrame(bytes[at + 3] as number, bytes[at + 4] as number, streamId, bytes, start, end)
      at = end
    }
    // A copy, so that a few bytes do not keep the whole chunk.
    if (at < length) this.#rest = Buffer.from(bytes.subarray(at))
  }

  /** Where the first frame begins, which has to be settings; undefined while it is not there. */
  #begin(bytes: Buffer): number | undefined {
    const common = Math.min(bytes.length, PREFACE.length)
    if (PREFACE.compare(bytes, 0, common, 0, common) !== 0) {
      throw new ConnectionError(errorCodes.protocol, 'no HTTP/2')
    }
    if (bytes.length < PREFACE.length + FRAME_HEADER_BYTES) {
      this.#rest = Buffer.from(bytes)
      return undefined
    }
    const isAck = ((bytes[PREFACE.length + 4] as number) & 1) === 1
    if (bytes[PREFACE.length + 3] !== frameTypes.settings || isAck) {
      throw new ConnectionError(errorCodes.protocol, 'no settings at the beginning')
    }
    this.#isBegun = true
    return PREFACE.length
  }
}
