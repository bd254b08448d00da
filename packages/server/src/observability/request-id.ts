/**
 * Ids of requests: in responses, in requests to upstreams, and in every log line of a request. An
 * id of a client is taken over only if nothing but an id can be in it.
 */

import { randomUUID } from 'node:crypto'

/** Ids of UUIDs, ULIDs, traces and common proxies are shorter. */
const ID_LENGTH_MAX = 128

/** Letters, digits and `-_.~:+/=@`: the alphabets of UUIDs, base64 and the ids of proxies. */
const idPattern = /^[A-Za-z0-9._~:+/=@-]+$/

export function isRequestId(text: string): boolean {
  return text.length <= ID_LENGTH_MAX && idPattern.test(text)
}

/** A random UUID. */
export function makeRequestId(): string {
  return randomUUID()
}

/** Returns the id that a caller has sent, or another one. */
export function requestIdFrom(sent: string | readonly string[] | undefined): string {
  return typeof sent === 'string' && isRequestId(sent) ? sent : makeRequestId()
}
