/** The last stage: sends the request to its upstream. */

import type { Stage } from '../message.ts'

export function forward(): Stage {
  return (request) => {
    const { route, hasBody, bodyBytes, headers } = request
    if (route === undefined) throw new Error('a request is forwarded after it has a route')
    // A length that was not told makes the body chunked; never are there both.
    if (hasBody && bodyBytes !== undefined) headers.push('content-length', String(bodyBytes))
    return route.upstream.send(request)
  }
}
