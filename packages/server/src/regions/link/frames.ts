/**
 * The format of the link. A message is a header and frames; its answer has one frame for each of
 * them, in the same order. A frame is its type, its length and its body.
 *
 * A receiver answers a frame of an unknown type with `unknown`, so that versions can differ.
 */

import { ByteReader, ByteWriter, MessageError } from './bytes.ts'

/** Types from 1: link; from 16: `shared`; from 32: `partition`; from 48: stores of a home. */
export const frameTypes = { ping: 1, shared: 16, store: 48 } as const

/** The types of answers. */
export const answerTypes = { ok: 0, unknown: 1, refused: 2, failed: 3 } as const

export interface Frame {
  readonly type: number
  readonly body: Uint8Array
}

export interface MessageHeader {
  readonly version: number
  readonly from: string
  /** That of the sender's list of regions. */
  readonly fingerprint: Buffer
}

/** The version of this format. A receiver refuses others, so both sides have to know it. */
export const LINK_VERSION = 1

/** Some thousand charges. Larger ones would delay those behind them on a slow link. */
export const MESSAGE_BYTES_MAX = 256 * 1_024

export const FRAMES_MAX = 4_096

const NAME_BYTES_MAX = 64
const FINGERPRINT_BYTES = 8

export function encodeMessage(header: MessageHeader, frames: readonly Frame[]): Buffer {
  const writer = new ByteWriter()
  writer.byte(header.version).text(header.from).bytes(header.fingerprint)
  return writeFrames(writer, frames).finish()
}

/** Throws a `MessageError`. The version is known before anything else is read. */
export function decodeMessage(bytes: Uint8Array): {
  readonly header: MessageHeader
  readonly frames: readonly Frame[]
} {
  const reader = new ByteReader(bytes)
  const version = reader.byte()
  if (version !== LINK_VERSION) {
    throw new MessageError(`version ${version} of the link is not known; allowed: ${LINK_VERSION}`)
  }
  const from = reader.text(NAME_BYTES_MAX, 'region')
  const fingerprint = reader.bytes(FINGERPRINT_BYTES)
  return { header: { version, from, fingerprint }, frames: readFrames(reader) }
}

export function encodeFrames(frames: readonly Frame[]): Buffer {
  return writeFrames(new ByteWriter(), frames).finish()
}

/** Throws a `MessageError`. */
export function decodeFrames(bytes: Uint8Array): readonly Frame[] {
  return readFrames(new ByteReader(bytes))
}

/** Bytes of a frame besides its body, at most. */
export const FRAME_BYTES = 5

function writeFrames(writer: ByteWriter, frames: readonly Frame[]): ByteWriter {
  for (const { type, body } of frames) writer.byte(type).whole(body.length).bytes(body)
  return writer
}

function readFrames(reader: ByteReader): readonly Frame[] {
  const frames: Frame[] = []
  while (!reader.isAtEnd) {
    if (frames.length >= FRAMES_MAX) throw new MessageError(`more than ${FRAMES_MAX} frames`)
    const type = reader.byte()
    frames.push({ type, body: reader.bytes(reader.count(MESSAGE_BYTES_MAX, 'frame')) })
  }
  return frames
}
