/**
 * Gives every request an id: that of the client if it is trusted, or a new one. The upstream and
 * the client get it, and the problem details of refusals.
 */

import { isRequestId, makeRequestId } from '../../../observability/request-id.ts'
import type { RequestIdSection } from '../../../policy/schema/logs/request-id-section.ts'
import { fieldOf, setField } from '../../header-list.ts'
import type { GatewayRequest, GatewayResponse } from '../../message.ts'
import { type Stage, whenDone } from '../../pipeline.ts'
import { addRequestId, copyWithId, MarkedResponse, requestId } from '../../request-id.ts'

export function identify({ header, accept }: RequestIdSection): Stage {
  const sentId = ({ headers, connection }: GatewayRequest): string | undefined => {
    const sent = fieldOf(headers, header)
    if (sent === undefined) return undefined
    const isTaken = accept === 'always' || (accept === 'trusted' && connection.isTrusted)
    return isTaken && isRequestId(sent) ? sent : undefined
  }
  const finish = (response: GatewayResponse, id: string, isOwn: boolean): GatewayResponse => {
    if (!response.isShared) {
      addRequestId(response, header, id)
      return response
    }
    if (typeof response.body !== 'string' || !isOwn) return copyWithId(response, header, id)
    return new MarkedResponse(response, header, id)
  }
  return (request, next) => {
    const sent = sentId(request)
    const id = sent ?? makeRequestId()
    request.context.set(requestId, id)
    if (sent === undefined) setField(request.headers, header, id)
    return whenDone(next(request), (response) => finish(response, id, sent === undefined))
  }
}
