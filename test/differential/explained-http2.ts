/**
 * Reasons why another HTTP/2 server does not read a request that the gateway forwards. Any other
 * difference fails the comparison. The list is also in docs/gateway-security.md.
 */

import type { FrameSequence } from './frame-sequences.ts'
import type { Http2Outcome } from './http2-servers.ts'

export interface Http2Difference {
  readonly sequence: FrameSequence
  readonly gateway: Http2Outcome
  readonly other: Http2Outcome
}

export interface Http2Explanation {
  readonly name: string
  readonly server: 'node' | 'nginx' | 'both'
  readonly because: string
  fits(difference: Http2Difference): boolean
}

const STREAM_CLOSED = 5
const PROTOCOL_ERROR = 1
const ENHANCE_YOUR_CALM = 11

const endsConnection = ({ errors }: Http2Outcome) => errors.some((code) => code < 0)
const resetsStream = ({ errors }: Http2Outcome) => errors.some((code) => code > 0)
const notes = ({ notes }: FrameSequence, pattern: RegExp) => notes.some((one) => pattern.test(one))

export const http2Explanations: readonly Http2Explanation[] = [
  {
    name: 'connection error',
    server: 'both',
    because:
      'Both close the connection for an error. It may come before or after a request is passed.',
    fits: ({ gateway, other }) => endsConnection(gateway) && endsConnection(other),
  },
  {
    name: 'stream error',
    server: 'nginx',
    because: 'Both find an error. One resets the stream, and one closes the connection.',
    fits: ({ gateway, other }) =>
      (resetsStream(gateway) && endsConnection(other)) ||
      (endsConnection(gateway) && resetsStream(other)),
  },
  {
    name: 'behind the end',
    server: 'nginx',
    because:
      'An error behind a complete request may come before or after the request is passed on.',
    fits: ({ sequence, other }) =>
      other.errors.includes(STREAM_CLOSED) || notes(sequence, /with type 3,/),
  },
  {
    name: 'trailers',
    server: 'nginx',
    because: 'nginx 1.22 closes a connection on which a request has trailers.',
    fits: ({ sequence, other }) => sequence.hasTrailers && endsConnection(other),
  },
  {
    name: 'invalid field',
    server: 'nginx',
    because: 'node:http2 drops a field with an invalid name or value. nginx resets the stream.',
    fits: ({ sequence, other }) =>
      notes(sequence, /^with (x|: b$)|^byte at \d+, type [19]$/) &&
      other.errors.some((code) => Math.abs(code) === PROTOCOL_ERROR),
  },
  {
    name: 'large head',
    server: 'nginx',
    because: 'A head beyond the bound is 431 and the next is served; nginx closes the connection.',
    fits: ({ sequence, other }) =>
      notes(sequence, /yyyy|aaaa/) && other.errors.includes(-ENHANCE_YOUR_CALM),
  },
  {
    name: 'skipped stream',
    server: 'nginx',
    because:
      'nghttp2 ignores frames of streams that a client has skipped. nginx closes the connection.',
    fits: ({ sequence, other }) => notes(sequence, /^stream \d+ to \d+/) && endsConnection(other),
  },
  {
    name: 'dots above the root',
    server: 'nginx',
    because: 'nginx refuses /../a. RFC 3986 5.2.4 reads it as /a, and the upstream gets /a.',
    fits: ({ sequence }) => notes(sequence, /^:path of \/\.\./),
  },
  {
    name: 'priorities',
    server: 'nginx',
    because: 'RFC 9113 deprecates PRIORITY frames. nghttp2 ignores them, also malformed ones.',
    fits: ({ sequence, other }) => notes(sequence, /type 2\b/) && endsConnection(other),
  },
  {
    name: 'host and authority',
    server: 'nginx',
    because:
      'nginx refuses `host` beside `:authority`. RFC 9113 8.3.1 allows both if they are equal.',
    fits: ({ sequence }) => notes(sequence, /^with host: (a\.example)?$/),
  },
  {
    name: 'invalid host',
    server: 'nginx',
    because: 'node:http2 drops an invalid `host`, and `:authority` counts. nginx answers 400.',
    fits: ({ sequence }) => notes(sequence, /^host of /),
  },
  {
    name: 'dots in a host',
    server: 'nginx',
    because: 'nginx refuses a host with an empty label, which RFC 3986 3.2.2 allows.',
    fits: ({ sequence }) => notes(sequence, /^:authority of (a\.\.b|\.)$/),
  },
]
