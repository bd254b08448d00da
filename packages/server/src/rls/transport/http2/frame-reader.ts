/** Splits the bytes of a socket into frames, independent of how they are split into chunks. */

import {
  ConnectionError,
  errorCodes,
  FRAME_BYTES_MAX,
  FRAME_HEADER_BYTES,
  frameTypes,
  PREFACE,
  STREAM_ID_MAX,
} from './frames.ts'

/** Gets a frame. Its payload is `bytes` from `start` to `end`, valid only during the call. */
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
  #hasPreface = false

  constructor(onFrame: OnFrame) {
    this.#onFrame = onFrame
  }

  /** True if the client has sent the preface and the header of its first SETTINGS frame. */
  get hasPreface(): boolean {
    return this.#hasPreface
  }

  /** True if a frame has arrived in part. */
  get isWithinFrame(): boolean {
    return this.#rest !== undefined
  }

  /** Throws ConnectionError if the bytes are not HTTP/2. */
  read(chunk: Buffer): void {
    const bytes = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk])
    this.#rest = undefined
    let at = 0
    if (!this.#hasPreface) {
      const first = this.#readPreface(bytes)
      if (first === undefined) return
      at = first
    }
    const { length } = bytes
    while (length - at >= FRAME_HEADER_BYTES) {
      const size =
        ((bytes[at] as number) << 16) | ((bytes[at + 1] as number) << 8) | (bytes[at + 2] as number)
      if (size > FRAME_BYTES_MAX) throw new ConnectionError(errorCodes.frameSize, 'frame too long')
      const start = at + FRAME_HEADER_BYTES
      const end = start + size
      if (end > length) break
      const streamId = bytes.readUInt32BE(at + 5) & STREAM_ID_MAX
      this.#onFrame(bytes[at + 3] as number, bytes[at + 4] as number, streamId, bytes, start, end)
      at = end
    }
    // Copied, so that a few bytes do not keep the whole chunk in memory.
    if (at < length) this.#rest = Buffer.from(bytes.subarray(at))
  }

  /** Returns the offset of the first frame, which must be SETTINGS; undefined until it arrives. */
  #readPreface(bytes: Buffer): number | undefined {
    const common = Math.min(bytes.length, PREFACE.length)
    if (PREFACE.compare(bytes, 0, common, 0, common) !== 0) {
      throw new ConnectionError(errorCodes.protocol, 'not HTTP/2')
    }
    if (bytes.length < PREFACE.length + FRAME_HEADER_BYTES) {
      this.#rest = Buffer.from(bytes)
      return undefined
    }
    const isAck = ((bytes[PREFACE.length + 4] as number) & 1) === 1
    if (bytes[PREFACE.length + 3] !== frameTypes.settings || isAck) {
      throw new ConnectionError(errorCodes.protocol, 'first frame is not SETTINGS')
    }
    this.#hasPreface = true
    return PREFACE.length
  }
}
