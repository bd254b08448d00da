/**
 * The header blocks of responses. They do not use the dynamic table, so the same bytes serve every
 * connection and are encoded once.
 */

/** The index of `content-type` in the static table. */
const CONTENT_TYPE = 31

/** The longest `grpc-message` in characters, so that it fits a log line. */
const TEXT_LENGTH_MAX = 512

/** `:status: 200` and the content type of gRPC. */
export const responseHeaders = Buffer.concat([
  Buffer.from([0x88]),
  indexedName(CONTENT_TYPE, 'application/grpc'),
])

/** `grpc-status: 0` */
export const okTrailers = literal('grpc-status', '0')

export function statusTrailers(status: number, text: string): Buffer {
  const parts = [literal('grpc-status', String(status))]
  if (text !== '') parts.push(literal('grpc-message', percentEncoded(text)))
  return Buffer.concat(parts)
}

/** A response without a message: https://github.com/grpc/grpc (PROTOCOL-HTTP2). */
export function trailersOnly(status: number, text: string): Buffer {
  const accepts = literal('grpc-accept-encoding', 'identity')
  return Buffer.concat([responseHeaders, accepts, statusTrailers(status, text)])
}

/** The status of a response to a request that is not gRPC. */
export function plainStatus(status: number): Buffer {
  const value = String(status)
  const statusIndex = 8
  return Buffer.concat([Buffer.from([statusIndex, value.length]), Buffer.from(value, 'latin1')])
}

/** Sets the dynamic table to 0 bytes, which every SETTINGS_HEADER_TABLE_SIZE allows. */
export const emptyTable = Buffer.from([0x20])

/** Encodes the percent sign and all bytes except printable ASCII. */
function percentEncoded(text: string): string {
  const bytes = Buffer.from(text.slice(0, TEXT_LENGTH_MAX), 'utf8')
  return Array.from(bytes, (byte) => {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25
    return isPlain
      ? String.fromCharCode(byte)
      : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }).join('')
}

function literal(name: string, value: string): Buffer {
  return Buffer.concat([Buffer.from([0x00]), stringLiteral(name), stringLiteral(value)])
}

function indexedName(index: number, value: string): Buffer {
  return Buffer.concat([Buffer.from([0x0f, index - 15]), stringLiteral(value)])
}

/** A string literal. Its length takes one byte below 127, two bytes up to 254, else three. */
function stringLiteral(value: string): Buffer {
  const bytes = Buffer.from(value, 'latin1')
  if (bytes.length < 127) return Buffer.concat([Buffer.from([bytes.length]), bytes])
  const rest = bytes.length - 127
  const length = rest < 128 ? [127, rest] : [127, (rest & 0x7f) | 0x80, rest >> 7]
  return Buffer.concat([Buffer.from(length), bytes])
}
