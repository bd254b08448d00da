/**
 * Where `gateway.transport: node` behaves in another way than `own`. Everything else is the same,
 * by the same tests. docs/gateway-security.md has this table.
 */

import { transportOfTests } from './transport.ts'

interface Difference {
  readonly side: 'clients' | 'upstreams'
  /** What happens with `transport: node`. */
  readonly what: string
  readonly why: string
}

export const differences = {
  pipelining: {
    side: 'clients',
    what: 'A client with more than 256 requests that wait on a connection is disconnected.',
    why: 'node:http reads all of them at once, and each holds about 4 KB.',
  },
  upgrade: {
    side: 'clients',
    what: 'The connection ends after a request with `Upgrade` for anything but WebSocket.',
    why: 'node:http drops the bytes that follow such a request.',
  },
  expectation: {
    side: 'clients',
    what: 'The connection ends after a request without a body that expects 100-continue.',
    why: 'node:http takes a response without 100 for one that refuses the body.',
  },
  leniency: {
    side: 'clients',
    what: 'Single CR or LF before a request and zeros before the size of a chunk are skipped.',
    why: 'llhttp reads them so. The upstream gets a request that the gateway writes itself.',
  },
  refusedCoding: {
    side: 'clients',
    what: 'A transfer coding that is not `chunked` can be refused with 400 instead of 501.',
    why: 'llhttp refuses some of them before the gateway sees the request.',
  },
  chunkExtensions: {
    side: 'clients',
    what: 'Extensions are bounded by 16 KB for each chunk, not for the body.',
    why: 'node:http starts its count with each chunk.',
  },
  blockedUpload: {
    side: 'upstreams',
    what: 'An upload that the upstream does not take ends after `timeouts.response`.',
    why: 'undici has no timeout between two pieces of a request; `own` takes `timeouts.idle`.',
  },
  brokenResponse: {
    side: 'upstreams',
    what: 'A response whose body is malformed from the start is cut off; `own` sends 502.',
    why: 'undici reports the error after the head has been sent.',
  },
  closedEarly: {
    side: 'upstreams',
    what: 'A response that an upstream sends before it resets an upload can be lost: 502.',
    why: 'undici drops bytes that it has not read when a write fails.',
  },
  connectionReuse: {
    side: 'upstreams',
    what: 'A connection is closed after HEAD, 304 with a length, and a refused switch.',
    why: 'undici does not trust servers to send no body there.',
  },
  continue: {
    side: 'upstreams',
    what: 'An upstream that sends 100 Continue is answered with 502.',
    why: 'undici takes 100 for an error, because the request does not ask for it.',
  },
  lengthWithSpace: {
    side: 'upstreams',
    what: 'A response with a space behind its `Content-Length` is refused with 502.',
    why: 'undici reads the space as a digit.',
  },
  statusText: {
    side: 'upstreams',
    what: 'A reason phrase beyond ASCII is replaced by the usual one.',
    why: 'undici decodes it as UTF-8.',
  },
  te: {
    side: 'upstreams',
    what: '`TE: trailers` is forwarded, but not named in `Connection`.',
    why: 'undici writes `Connection` itself.',
  },
} as const satisfies Record<string, Difference>

/** Returns whether the transport of this test has the difference. */
export function differs(_name: keyof typeof differences): boolean {
  return transportOfTests() === 'node'
}

interface OtherOutcome {
  readonly difference: keyof typeof differences
  readonly statuses: readonly number[]
  readonly seen: readonly string[]
}

const both = ['GET /a 0', 'GET /next 0']

/** Cases of test/differential/protocol-cases.ts that end in another way, by their names. */
const otherOutcomes: Readonly<Record<string, OtherOutcome>> = {
  'a CR before the line': { difference: 'leniency', statuses: [200, 200], seen: both },
  'an LF before the line': { difference: 'leniency', statuses: [200, 200], seen: both },
  'a chunk size of 17 digits': {
    difference: 'leniency',
    statuses: [200, 200],
    seen: ['POST /a 5', 'GET /next 0'],
  },
  'a coding of nothing and a length': { difference: 'refusedCoding', statuses: [400], seen: [] },
  'chunked and a comma': { difference: 'refusedCoding', statuses: [400], seen: [] },
  'h2c with settings': { difference: 'upgrade', statuses: [200], seen: ['GET /a 0'] },
  'an upgrade to HTTP/2.0': { difference: 'upgrade', statuses: [200], seen: ['GET /a 0'] },
  'an expectation without a body': {
    difference: 'expectation',
    statuses: [200],
    seen: ['POST /a 0'],
  },
}

/** Returns the outcome of a case with the transport of this test, if it is another one. */
export function otherOutcome(name: string): Omit<OtherOutcome, 'difference'> | undefined {
  const other = otherOutcomes[name]
  if (other === undefined || !differs(other.difference)) return undefined
  const { statuses, seen } = other
  return { statuses, seen }
}
