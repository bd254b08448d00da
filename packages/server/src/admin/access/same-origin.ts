/**
 * Checks that a page of another site cannot use the admin API through the browser of an operator.
 * Requests with a token need no check: a page of another site has no token.
 */

import { isIP } from 'node:net'
import { ApiError } from '../../http-api/api-error.ts'
import type { ApiRequest } from '../../http-api/messages.ts'

/** Names that lead to this machine without DNS. */
const localNames = ['localhost', 'ip6-localhost']

/**
 * Throws for a host that is not ours. An attacker's name can be made to resolve to 127.0.0.1, and
 * its pages then count as same-origin; addresses cannot be forged that way.
 */
export function checkHost({ headers }: ApiRequest, names: readonly string[]): void {
  const host = hostName(headers.host ?? '')
  if (isIP(host) !== 0 || localNames.includes(host) || names.includes(host)) return
  throw new ApiError(
    421,
    'The host is not a name of this listener; add it to admin.hosts or TIDEGATE_ADMIN_HOSTS.',
  )
}

/** Throws for an unsafe request of a session that does not come from our own pages. */
export function checkSameOrigin({ method, headers, isEncrypted }: ApiRequest): void {
  if (method === 'GET') return
  const site = headers['sec-fetch-site']
  const own = `${isEncrypted ? 'https' : 'http'}://${headers.host ?? ''}`
  if (site === 'same-origin' || (site === undefined && headers.origin === own)) return
  throw new ApiError(403, 'A session is valid for requests of the same origin only.')
}

/** Forms of other sites cannot send this type without a pre-flight. */
export function checkContentType({ headers }: ApiRequest): void {
  const type = headers['content-type'] ?? ''
  if (/^application\/json *(;|$)/i.test(type)) return
  throw new ApiError(415, 'Send the body as application/json.')
}

function hostName(host: string): string {
  const bracketed = /^\[([^\]]*)\](:\d+)?$/.exec(host)?.[1]
  return (bracketed ?? host.replace(/:\d+$/, '')).toLowerCase()
}
