/** The last stage: sends the request to its upstream. */

import type { Stage } from '../message.ts'

export function forward(): Stage {
  return (request) => {
    const { route } = request
    if (route === undefined) throw new Error('a request is forwarded after it has a route')
    return route.upstream.send(request)
  }
}
