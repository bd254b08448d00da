/**
 * Ids of requests: in responses, in requests to upstreams, and in every log line of a request. An
 * id of a client is taken over only if nothing but an id can be in it.
 */

import { randomFillSync } from 'node:crypto'

/** Ids of UUIDs, ULIDs, traces and common proxies are shorter. */
const ID_LENGTH_MAX = 128

/** Letters, digits and `-_.~:+/=@`: the alphabets of UUIDs, base64 and the ids of proxies. */
const idPattern = /^[A-Za-z0-9._~:+/=@-]+$/

export function isRequestId(text: string): boolean {
  return text.length <= ID_LENGTH_MAX && idPattern.test(text)
}

const UUID_BYTES = 16
const UUID_LENGTH = 36

/** Made at once, which takes half the time of `randomUUID`: every request has an id. */
const UUIDS = 128

const random = Buffer.alloc(UUIDS * UUID_BYTES)
const uuids = Buffer.alloc(UUIDS * UUID_LENGTH)
let taken = UUIDS

/** Returns a random UUID: https://www.rfc-editor.org/rfc/rfc9562#section-5.4 */
export function makeRequestId(): string {
  if (taken === UUIDS) makeUuids()
  const start = taken * UUID_LENGTH
  taken += 1
  return uuids.toString('latin1', start, start + UUID_LENGTH)
}

function makeUuids(): void {
  randomFillSync(random)
  let written = 0
  for (let at = 0; at < random.length; at += 1) {
    const place = at % UUID_BYTES
    if (place === 4 || place === 6 || place === 8 || place === 10) uuids[written++] = HYPHEN
    const byte = withVersion(random[at] as number, place)
    uuids[written++] = HEX_DIGITS[byte >> 4] as number
    uuids[written++] = HEX_DIGITS[byte & 0x0f] as number
  }
  taken = 0
}

const HYPHEN = 0x2d
const HEX_DIGITS = Buffer.from('0123456789abcdef')

/** Two places have the version 4 and the variant instead of random bits. */
function withVersion(byte: number, place: number): number {
  if (place === 6) return (byte & 0x0f) | 0x40
  return place === 8 ? (byte & 0x3f) | 0x80 : byte
}

/** Returns the id that a caller has sent, or another one. */
export function requestIdFrom(sent: string | readonly string[] | undefined): string {
  return typeof sent === 'string' && isRequestId(sent) ? sent : makeRequestId()
}
