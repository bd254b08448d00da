/**
 * Reasons why another server does not read a request that the gateway forwards. Any other
 * difference fails the comparison. The list is also in docs/gateway-security.md.
 */

import { isSame } from './compare.ts'
import type { Outcome } from './http1-servers.ts'

export interface Difference {
  /** All bytes that the client sent. */
  readonly text: string
  readonly gateway: Outcome
  readonly other: Outcome
}

export interface Explanation {
  readonly name: string
  readonly server: 'node' | 'nginx' | 'both'
  readonly because: string
  fits(difference: Difference): boolean
}

export const explanations: readonly Explanation[] = [
  {
    name: 'reads on',
    server: 'both',
    because:
      'Both refuse the same request. The gateway reads the next one, the other server closes.',
    fits: ({ gateway, other }) => {
      const refused = gateway.statuses[other.seen.length] ?? 0
      return stopsEarly(gateway, other) && refused >= 400 && endsRefused(other)
    },
  },
  {
    name: 'no Host',
    server: 'node',
    because: 'node:http closes after a request without Host, but hands on others of the same read.',
    fits: ({ gateway, other }) => {
      const hasRefused = gateway.statuses
        .slice(0, other.seen.length + 1)
        .some((status) => status >= 400)
      return stopsEarly(gateway, other) && hasRefused && endsRefused(other)
    },
  },
  {
    name: 'no upgrade',
    server: 'node',
    because: 'node:http without an upgrade listener drops what follows a request for an upgrade.',
    fits: ({ text, gateway, other }) =>
      stopsEarly(gateway, other) &&
      /\nupgrade:/i.test(text) &&
      /\nconnection:[^\n]*upgrade/i.test(text),
  },
  {
    name: 'empty expectation',
    server: 'node',
    because:
      'node:http refuses an empty Expect with 417. It expects nothing, so it is ignored here.',
    fits: ({ text, other }) => /\nexpect:[ \t]*\r\n/i.test(text) && refuses(other),
  },
  {
    name: 'HTTP/1.0 keep-alive',
    server: 'node',
    because: 'node:http closes the connection after a response without a length to HTTP/1.0.',
    fits: ({ text, gateway, other }) =>
      stopsEarly(gateway, other) && text.includes(' HTTP/1.0\r\n'),
  },
  {
    name: 'dots above the root',
    server: 'nginx',
    because: 'nginx refuses /../a. RFC 3986 5.2.4 reads it as /a, and the upstream gets /a.',
    fits: ({ text, other }) => /\/\.\.|\/%2e/i.test(text) && refuses(other),
  },
  {
    name: 'tabs',
    server: 'both',
    because:
      'They do not remove tabs around all values. RFC 9110 5.6.3 counts them as white space.',
    fits: ({ text, other }) =>
      /\n(content-length|transfer-encoding|host|connection):[^\n]*\t/i.test(text) && refuses(other),
  },
  {
    name: 'dots in a host',
    server: 'nginx',
    because: 'nginx refuses a host with an empty label, which RFC 3986 3.2.2 allows.',
    fits: ({ text, other }) => /\nhost:[^\n]*(\.\.|[ :]\.)/i.test(text) && refuses(other),
  },
  {
    name: 'several expectations',
    server: 'nginx',
    because: 'nginx refuses two Expect fields. RFC 9110 10.1.1 allows a list.',
    fits: ({ text, other }) => (text.match(/\nexpect:/gi)?.length ?? 0) > 1 && refuses(other),
  },
  {
    name: 'close within a word',
    server: 'nginx',
    because: 'nginx finds `close` within any word of Connection, such as `closed`.',
    fits: ({ text, gateway, other }) =>
      stopsEarly(gateway, other) && !refuses(other) && /\nconnection:[^\n]*close/i.test(text),
  },
  {
    name: 'empty query',
    server: 'nginx',
    because: 'nginx drops the `?` of `http://host?`. The upstream of the gateway gets `/?`.',
    fits: ({ text, gateway, other }) =>
      /^[A-Z]+ http:\/\/[^/?\s]*\? /m.test(text) &&
      gateway.seen.length === other.seen.length &&
      gateway.seen.every((passed, at) => {
        const target = passed.target === '/?' ? '/' : passed.target
        const read = other.seen[at]
        return read !== undefined && (isSame(passed, read) || isSame({ ...passed, target }, read))
      }),
  },
]

const refuses = ({ statuses }: Outcome) => statuses.some((status) => status >= 400)

/** Closing the connection without a response is a refusal too. */
const endsRefused = ({ statuses }: Outcome) => (statuses.at(-1) ?? 400) >= 400

/** True if the other server agrees on all requests that it has read, and reads no further ones. */
function stopsEarly(gateway: Outcome, other: Outcome): boolean {
  let at = 0
  for (const request of other.seen) {
    const passed = gateway.seen[at]
    if (passed !== undefined && isSame(passed, request)) at += 1
  }
  const onlyOther = other.seen.length - at
  return onlyOther <= gateway.statuses.filter((status) => status >= 400).length
}
