/**
 * The header blocks of answers. Written without the dynamic table, so that they are the same bytes
 * for every connection, and made once.
 */

const CONTENT_TYPE = 31

/** Characters of a message: what a log line holds. */
const TEXT_LENGTH_MAX = 512

/** `:status: 200`, and the content type. */
export const replyHeaders = Buffer.concat([
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

/** An answer that is its trailers only: https://github.com/grpc/grpc (PROTOCOL-HTTP2). */
export function trailersOnly(status: number, text: string): Buffer {
  const accepts = literal('grpc-accept-encoding', 'identity')
  return Buffer.concat([replyHeaders, accepts, statusTrailers(status, text)])
}

/** For what is no gRPC. */
export function plainStatus(status: number): Buffer {
  const value = String(status)
  const statusIndex = 8
  return Buffer.concat([Buffer.from([statusIndex, value.length]), Buffer.from(value, 'latin1')])
}

/** Sets the client's table to nothing, which is allowed whatever size it wants. */
export const emptyTable = Buffer.from([0x20])

/** All but printable ASCII, and the percent sign; cut to what a header may well hold. */
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
  return Buffer.concat([Buffer.from([0x00]), text(name), text(value)])
}

function indexedName(index: number, value: string): Buffer {
  return Buffer.concat([Buffer.from([0x0f, index - 15]), text(value)])
}

/** A length of up to 254 fits two bytes; longer texts take a third. */
function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'latin1')
  if (bytes.length < 127) return Buffer.concat([Buffer.from([bytes.length]), bytes])
  const rest = bytes.length - 127
  const length = rest < 128 ? [127, rest] : [127, (rest & 0x7f) | 0x80, rest >> 7]
  return Buffer.concat([Buffer.from(length), bytes])
}
