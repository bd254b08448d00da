/** Reads from a head where the next request begins, and whether the client wants to send one. */

import type { BadHead, RequestHead } from '../../request-head.ts'
import type { WireRequest } from '../read-request.ts'

/** False if the body has two lengths or none: the next request could begin anywhere. */
export function isClear({ version, method }: WireRequest, head: RequestHead | BadHead): boolean {
  if ('status' in head || method === 'CONNECT') return false
  return !head.isChunked || (head.bodyBytes === undefined && version === '1.1')
}

/** https://www.rfc-editor.org/rfc/rfc9112#section-9.3 */
export function asksToPersist(version: WireRequest['version'], connection: string): boolean {
  if (connection === '') return version === '1.1'
  if (/(^|,)\s*close\s*(,|$)/i.test(connection)) return false
  return version === '1.1' || /(^|,)\s*keep-alive\s*(,|$)/i.test(connection)
}
