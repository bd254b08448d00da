/**
 * `Via`: the gateways and proxies that a request has passed. The gateway adds its own name, and
 * refuses a request that already carries it: an upstream leads back to this gateway, and the loop
 * would take all connections. https://www.rfc-editor.org/rfc/rfc9110#section-7.6.3
 */

import { fieldOf, setField } from '../header-list.ts'
import type { GatewayRequest } from '../message.ts'
import type { Stage } from '../pipeline.ts'
import { refusal } from '../refusal.ts'

const VIA = 'via'

export function refuseLoops(name: string): Stage {
  return (request, next) => {
    const via = fieldOf(request.headers, VIA)
    if (via === undefined || !hasPassed(via, name)) return next(request)
    // https://www.rfc-editor.org/rfc/rfc5842#section-7.2
    return refusal(508, 'The request has passed this gateway before.')
  }
}

/** Whether an entry such as `1.1 name` or `HTTP/1.1 name (comment)` has the name. */
function hasPassed(via: string, name: string): boolean {
  return via.split(',').some((entry) => entry.trim().split(/[ \t]+/, 2)[1] === name)
}

/** Appends this gateway to the entries of the client and of proxies before it. */
export function addVia({ headers, version }: GatewayRequest, name: string): void {
  const before = fieldOf(headers, VIA)
  const hop = `${version} ${name}`
  if (before === undefined) headers.push(VIA, hop)
  else setField(headers, VIA, `${before}, ${hop}`)
}
