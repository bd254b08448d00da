/** What a head says of where the next request begins, and whether there is to be one. */

import type { BadHead, RequestHead } from '../../request-head.ts'
import type { WireRequest } from '../read-request.ts'

/** Where the length is told in two ways or in none, nobody knows where the next request begins. */
export function isClear({ version, method }: WireRequest, head: RequestHead | BadHead): boolean {
  if ('status' in head || method === 'CONNECT') return false
  return !head.isChunked || (head.bodyBytes === undefined && version === '1.1')
}

/** https://www.rfc-editor.org/rfc/rfc9112#section-9.3 */
export function asksToGoOn(version: WireRequest['version'], connection: string): boolean {
  if (connection === '') return version === '1.1'
  if (/(^|,)\s*close\s*(,|$)/i.test(connection)) return false
  return version === '1.1' || /(^|,)\s*keep-alive\s*(,|$)/i.test(connection)
}
