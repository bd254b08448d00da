/**
 * Connections to the listener of another region: TLS with its certificate, and HTTP/2.
 *
 * Attempts side by side share one lookup of the host name, because a lookup without an answer keeps
 * a thread of the process for many seconds, also after its attempt was given up. If names cannot be
 * looked up after a cut, an attempt uses the addresses of the lookup before.
 */

import { type LookupAddress, lookup } from 'node:dns'
import { type ClientHttp2Session, connect } from 'node:http2'
import type { LookupFunction } from 'node:net'
import { createSecureContext, type PeerCertificate } from 'node:tls'
import { alternativeNames } from '../../config/alternative-names.ts'
import { MESSAGE_BYTES_MAX } from './frames.ts'

export interface LinkEndpoint {
  /** The name of the region, which its certificate has. */
  readonly peer: string
  /** The host and the port. */
  readonly address: string
  readonly tls: { readonly cert: Buffer; readonly key: Buffer; readonly ca: Buffer }
  /** With a token, the listener does not ask for the certificate of the client. */
  readonly hasToken: boolean
}

/** Returns a function that begins to connect. Throws if a file is not a certificate or a key. */
export function sessionsTo({ peer, address, tls, hasToken }: LinkEndpoint) {
  const own = hasToken ? undefined : { cert: tls.cert, key: tls.key }
  const secureContext = createSecureContext({ ca: tls.ca, ...own, minVersion: 'TLSv1.2' })
  const sharedLookup = createLookup()
  return (): ClientHttp2Session =>
    connect(`https://${address}`, {
      secureContext,
      lookup: sharedLookup,
      checkServerIdentity: (_, certificate) => wrongRegion(peer, certificate),
      settings: { initialWindowSize: MESSAGE_BYTES_MAX, enablePush: false },
    })
}

/** An attempt waits this long for a lookup if there are addresses of an earlier one. */
const LOOKUP_MS_MAX = 200

type Answer = (error: NodeJS.ErrnoException | null, addresses: readonly LookupAddress[]) => void

/** `find` is that of the operating system, and differs in tests. */
export function createLookup(find: typeof lookup = lookup): LookupFunction {
  let known: readonly LookupAddress[] = []
  let waiting: Set<Answer> | undefined
  const end: Answer = (error, addresses) => {
    const answers = waiting ?? []
    waiting = undefined
    if (error === null) known = addresses
    for (const answer of answers) answer(error, addresses)
  }
  return (host, options, callback) => {
    const answer: Answer = (error, found) => {
      clearTimeout(timer)
      waiting?.delete(answer)
      const addresses = error === null ? found : known
      const [first] = addresses
      if (first === undefined) callback(error, '')
      else if (options.all === true) callback(null, [...addresses])
      else callback(null, first.address, first.family)
    }
    const timer = setTimeout(() => known.length > 0 && answer(null, known), LOOKUP_MS_MAX).unref()
    const isUnderWay = waiting !== undefined
    waiting ??= new Set()
    waiting.add(answer)
    if (!isUnderWay) find(host, { ...options, all: true }, end)
  }
}

/** The certificate is valid for the link; it must also be that of the region. */
function wrongRegion(peer: string, { subjectaltname = '' }: PeerCertificate): Error | undefined {
  if (alternativeNames(subjectaltname).includes(peer)) return undefined
  return Object.assign(new Error(`the certificate is not that of the region ${peer}`), {
    code: `the certificate has no DNS name ${peer}`,
  })
}
