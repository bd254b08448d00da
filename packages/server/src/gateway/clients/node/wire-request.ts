/** A request of `node:http` as the gateway reads requests, and what it refuses beyond that. */

import type { IncomingMessage } from 'node:http'
import type { BadHead } from '../../request-head.ts'
import { isTarget, requestError } from '../http1/read-request-head.ts'
import type { WireRequest } from '../read-request.ts'

/** A request without `incoming` could not be read. */
export function wireRequest(incoming: IncomingMessage | undefined): WireRequest {
  return {
    method: incoming?.method ?? '',
    target: incoming?.url ?? '/',
    fields: incoming === undefined ? [] : trimmed(incoming.rawHeaders),
    version: incoming?.httpVersion === '1.0' ? '1.0' : '1.1',
    authority: undefined,
    hasBody: undefined,
  }
}

/** `node:http` accepts other versions of HTTP, any target, and counts fewer bytes of a head. */
export function wireProblem(
  wire: WireRequest,
  incoming: IncomingMessage | undefined,
  headBytesMax: number,
): BadHead | undefined {
  const isKnown = incoming?.httpVersion === '1.1' || incoming?.httpVersion === '1.0'
  if (!isKnown || !isTarget(wire.method, wire.target)) {
    return requestError(400, 'the request line is not valid')
  }
  if (headBytes(wire) <= headBytesMax) return undefined
  return requestError(431, 'the header fields of the request are too large')
}

/** The spaces and the version of a request line. */
const LINE_BYTES = '  HTTP/1.1'.length

/** The line end, colon and space of a field. */
const FIELD_BYTES = '\r\n: '.length

function headBytes({ method, target, fields }: WireRequest): number {
  const start = method.length + target.length + LINE_BYTES + (fields.length / 2) * FIELD_BYTES
  return fields.reduce((sum, text) => sum + text.length, start)
}

/**
 * `node:http` leaves tabs around some values.
 * https://www.rfc-editor.org/rfc/rfc9110#section-5.5
 */
function trimmed(fields: readonly string[]): readonly string[] {
  return fields.some(hasBlanks) ? fields.map((text) => text.replace(blanks, '')) : fields
}

const blanks = /^[ \t]+|[ \t]+$/g

function hasBlanks(text: string): boolean {
  return isBlank(text.charCodeAt(0)) || isBlank(text.charCodeAt(text.length - 1))
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09
}
