/** Encodes HTTP/2 frames: https://www.rfc-editor.org/rfc/rfc9113#section-6. */

export const frameTypes = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const

export const flags = {
  ack: 0x1,
  endStream: 0x1,
  endHeaders: 0x4,
  padded: 0x8,
  priority: 0x20,
} as const

/** https://www.rfc-editor.org/rfc/rfc9113#section-7 */
export const errorCodes = {
  none: 0x0,
  protocol: 0x1,
  internal: 0x2,
  flowControl: 0x3,
  streamClosed: 0x5,
  frameSize: 0x6,
  refusedStream: 0x7,
  cancel: 0x8,
  compression: 0x9,
  enhanceYourCalm: 0xb,
} as const

export const settingIds = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
  maxHeaderListSize: 6,
} as const

export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1')

export const FRAME_HEADER_BYTES = 9

/** The smallest SETTINGS_MAX_FRAME_SIZE, so every client accepts it. Longer frames are refused. */
export const FRAME_BYTES_MAX = 16_384

export const WINDOW_BYTES_DEFAULT = 65_535
export const WINDOW_BYTES_MAX = 0x7fff_ffff
export const STREAM_ID_MAX = 0x7fff_ffff

/** Ends a connection with GOAWAY: a code, and a text for the client's log. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError'
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

/** Ends one stream with RST_STREAM; the connection stays open. */
export class StreamError extends Error {
  override readonly name = 'StreamError'
  readonly streamId: number
  readonly code: number

  constructor(streamId: number, code: number) {
    super(`stream ${streamId}`)
    this.streamId = streamId
    this.code = code
  }
}

export function frame(type: number, flag: number, streamId: number, payload: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(FRAME_HEADER_BYTES + payload.length)
  writeFrameHeader(bytes, 0, payload.length, type, flag, streamId)
  bytes.set(payload, FRAME_HEADER_BYTES)
  return bytes
}

export function writeFrameHeader(
  bytes: Uint8Array,
  at: number,
  length: number,
  type: number,
  flag: number,
  streamId: number,
): void {
  bytes[at] = length >>> 16
  bytes[at + 1] = length >>> 8
  bytes[at + 2] = length
  bytes[at + 3] = type
  bytes[at + 4] = flag
  writeUint32(bytes, at + 5, streamId)
}

export function writeUint32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 24
  bytes[at + 1] = value >>> 16
  bytes[at + 2] = value >>> 8
  bytes[at + 3] = value
}

export function settingsFrame(settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.allocUnsafe(settings.length * 6)
  for (const [at, [id, value]] of settings.entries()) {
    payload.writeUInt16BE(id, at * 6)
    payload.writeUInt32BE(value, at * 6 + 2)
  }
  return frame(frameTypes.settings, 0, 0, payload)
}

export function goAwayFrame(lastStreamId: number, code: number, text: string): Buffer {
  const payload = Buffer.concat([Buffer.alloc(8), Buffer.from(text, 'latin1')])
  writeUint32(payload, 0, lastStreamId)
  writeUint32(payload, 4, code)
  return frame(frameTypes.goAway, 0, 0, payload)
}

export function uint32Frame(type: number, streamId: number, value: number): Buffer {
  const payload = Buffer.allocUnsafe(4)
  writeUint32(payload, 0, value)
  return frame(type, 0, streamId, payload)
}

/** The error for a client that exhausts a budget. */
export function flood(frames: string): ConnectionError {
  return new ConnectionError(errorCodes.enhanceYourCalm, `too many ${frames}`)
}
