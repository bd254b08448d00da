/**
 * Assembles header blocks from HEADERS and CONTINUATION frames. Each is decoded exactly once and in
 * order, because decoding changes the dynamic table of the connection.
 *
 * Clients repeat header blocks. If the bytes equal those of the last one and the table has not
 * changed, the decoded head is reused.
 */

import { ConnectionError, errorCodes, flags, STREAM_ID_MAX } from '../frames.ts'
import { type RequestHead, readHead } from '../request-head.ts'
import { HpackDecoder } from './hpack-decoder.ts'

/** The compressed size: twice the size that the decoded list may have. */
const HEADER_BLOCK_BYTES_MAX = 32_768

/** A header block of the maximum size fits 3 frames; clients may use shorter ones. */
const CONTINUATIONS_MAX = 8

/** Undefined until the header block is complete. */
export type DecodedBlock = RequestHead | 'trailers' | 'malformed' | undefined

export class HeaderBlocks {
  readonly #decoder = new HpackDecoder()
  #chunks: Buffer[] = []
  #chunkBytes = 0
  #streamId = 0
  #lastHeaderBlock: Buffer | undefined
  #lastHead: RequestHead | undefined
  #lastVersion = -1
  endsStream = false
  /** The stream on which the last one depends, if it has a priority. */
  dependsOn: number | undefined

  get isUnfinished(): boolean {
    return this.#chunks.length > 0
  }

  /** Reads a HEADERS frame. */
  begin(flag: number, id: number, bytes: Buffer, start: number, end: number): DecodedBlock {
    let from = start
    let to = end
    if ((flag & flags.padded) !== 0) to -= bytes[from++] ?? 0
    this.dependsOn = undefined
    if ((flag & flags.priority) !== 0) {
      if (from + 5 > end) throw new ConnectionError(errorCodes.frameSize, 'priority too short')
      this.dependsOn = bytes.readUInt32BE(from) & STREAM_ID_MAX
      from += 5
    }
    if (to < from) throw new ConnectionError(errorCodes.protocol, 'padding longer than its frame')
    this.endsStream = (flag & flags.endStream) !== 0
    if ((flag & flags.endHeaders) !== 0) return this.#decode(bytes, from, to)
    this.#streamId = id
    this.#append(bytes, from, to)
    return undefined
  }

  /** Reads a CONTINUATION frame. */
  continue(flag: number, id: number, bytes: Buffer, start: number, end: number): DecodedBlock {
    if (!this.isUnfinished || id !== this.#streamId) {
      throw new ConnectionError(errorCodes.protocol, 'CONTINUATION without HEADERS')
    }
    this.#append(bytes, start, end)
    if ((flag & flags.endHeaders) === 0) return undefined
    const headerBlock = Buffer.concat(this.#chunks)
    this.#chunks = []
    this.#chunkBytes = 0
    return this.#decode(headerBlock, 0, headerBlock.length)
  }

  #append(bytes: Buffer, start: number, end: number): void {
    this.#chunkBytes += end - start
    if (this.#chunkBytes > HEADER_BLOCK_BYTES_MAX || this.#chunks.length > CONTINUATIONS_MAX) {
      throw new ConnectionError(errorCodes.enhanceYourCalm, 'header block too long')
    }
    this.#chunks.push(Buffer.from(bytes.subarray(start, end)))
  }

  #decode(bytes: Buffer, start: number, end: number): DecodedBlock {
    if (this.#isLast(bytes, start, end)) return this.#lastHead
    const headerBlock = bytes.subarray(start, end)
    const { version } = this.#decoder
    // Requests begin with pseudo-header fields, and trailers have none.
    const head = readHead(this.#decoder, headerBlock)
    if (head.method === '' && head.path === '' && head.isMalformed) {
      return head.isTrailers ? 'trailers' : 'malformed'
    }
    this.#lastHeaderBlock = version === this.#decoder.version ? Buffer.from(headerBlock) : undefined
    this.#lastHead = head
    this.#lastVersion = version
    return head
  }

  #isLast(bytes: Buffer, start: number, end: number): boolean {
    const last = this.#lastHeaderBlock
    if (last === undefined || last.length !== end - start) return false
    if (this.#lastVersion !== this.#decoder.version) return false
    for (let at = 0; at < last.length; at++) if (last[at] !== bytes[start + at]) return false
    return true
  }
}
