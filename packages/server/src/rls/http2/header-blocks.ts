/**
 * Header blocks, which come in one frame or go on in others. Each is decoded exactly once and in
 * order, because decoding changes the table of the connection.
 *
 * Clients send the same few blocks again and again: one that is byte for byte the last one, with
 * the same table, means the same.
 */

import { ConnectionError, errorCodes, flags, STREAM_ID_MAX } from './frames.ts'
import { HpackDecoder } from './hpack-decoder.ts'
import { type RequestHead, readHead } from './request-head.ts'

/** Compressed; the list itself may have as much. */
const BLOCK_BYTES_MAX = 32_768

/** A block of the most bytes fits three frames. */
const CONTINUATIONS_MAX = 8

export type Block = RequestHead | 'trailers' | 'wrong' | undefined

export class HeaderBlocks {
  readonly #decoder = new HpackDecoder()
  #parts: Buffer[] = []
  #partsBytes = 0
  #streamId = 0
  #lastBlock: Buffer | undefined
  #lastHead: RequestHead | undefined
  #lastVersion = -1
  endsStream = false
  /** Which stream the last one depends on, where it says so. */
  dependsOn: number | undefined

  get isUnfinished(): boolean {
    return this.#parts.length > 0
  }

  /** A frame of headers. Undefined where more of the block is to come. */
  begin(flag: number, id: number, bytes: Buffer, start: number, end: number): Block {
    let from = start
    let to = end
    if ((flag & flags.padded) !== 0) to -= bytes[from++] ?? 0
    this.dependsOn = undefined
    if ((flag & flags.priority) !== 0) {
      if (from + 5 > end) throw new ConnectionError(errorCodes.frameSize, 'a short priority')
      this.dependsOn = bytes.readUInt32BE(from) & STREAM_ID_MAX
      from += 5
    }
    if (to < from) throw new ConnectionError(errorCodes.protocol, 'padding longer than its frame')
    this.endsStream = (flag & flags.endStream) !== 0
    if ((flag & flags.endHeaders) !== 0) return this.#decode(bytes, from, to)
    this.#streamId = id
    this.#keep(bytes, from, to)
    return undefined
  }

  go(flag: number, id: number, bytes: Buffer, start: number, end: number): Block {
    if (!this.isUnfinished || id !== this.#streamId) {
      throw new ConnectionError(errorCodes.protocol, 'a continuation of nothing')
    }
    this.#keep(bytes, start, end)
    if ((flag & flags.endHeaders) === 0) return undefined
    const block = Buffer.concat(this.#parts)
    this.#parts = []
    this.#partsBytes = 0
    return this.#decode(block, 0, block.length)
  }

  #keep(bytes: Buffer, start: number, end: number): void {
    this.#partsBytes += end - start
    if (this.#partsBytes > BLOCK_BYTES_MAX || this.#parts.length > CONTINUATIONS_MAX) {
      throw new ConnectionError(errorCodes.enhanceYourCalm, 'a header block that is too long')
    }
    this.#parts.push(Buffer.from(bytes.subarray(start, end)))
  }

  #decode(bytes: Buffer, start: number, end: number): Block {
    if (this.#isLast(bytes, start, end)) return this.#lastHead
    const block = bytes.subarray(start, end)
    const { version } = this.#decoder
    // Trailers have no pseudo-header fields, and requests begin with them.
    const head = readHead(this.#decoder, block)
    if (head.method === '' && head.path === '' && head.isMalformed) {
      return head.isTrailers ? 'trailers' : 'wrong'
    }
    this.#lastBlock = version === this.#decoder.version ? Buffer.from(block) : undefined
    this.#lastHead = head
    this.#lastVersion = version
    return head
  }

  #isLast(bytes: Buffer, start: number, end: number): boolean {
    const last = this.#lastBlock
    if (last === undefined || last.length !== end - start) return false
    if (this.#lastVersion !== this.#decoder.version) return false
    for (let at = 0; at < last.length; at++) if (last[at] !== bytes[start + at]) return false
    return true
  }
}
