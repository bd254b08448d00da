/**
 * The client's IP for a guard. The guard's own `trustProxy` decides. If it is not set, the
 * framework's own proxy trust does, such as `trust proxy` of Express.
 *
 * If neither is set, `X-Forwarded-For` is ignored, because any client can send one. Behind a proxy
 * that makes all clients one, so the first such field is a process warning.
 */

import { emitWarning } from '../runtime.ts'
import {
  type AddressSource,
  type ClientIp,
  type ClientIpOptions,
  clientIp,
  withoutPort,
} from './client-ip.ts'

export interface FrameworkAddressSource<Request> extends AddressSource<Request> {
  /** The client's address by the framework's own proxy trust; undefined if that is not set. */
  trustedAddress?(request: Request): string | undefined
}

export function guardIp<Request>(
  options: ClientIpOptions,
  path: string,
  source: FrameworkAddressSource<Request>,
): ClientIp<Request> {
  const own = clientIp(options, path, source)
  if (options.trustProxy !== undefined) return own
  const byFramework = clientIp<string>(options, path, {
    remoteAddress: (address) => withoutPort(address),
    forwardedFor: () => undefined,
  })
  return (request) => {
    const trusted = source.trustedAddress?.(request)
    // A framework also passes on texts that are not addresses; the peer of the socket is one.
    if (trusted !== undefined) return byFramework(trusted) ?? own(request)
    if (!isWarned && source.forwardedFor(request)) warn()
    return own(request)
  }
}

let isWarned = false

function warn(): void {
  isWarned = true
  const message =
    'A request has X-Forwarded-For, but no proxy is trusted, so all clients behind a proxy share ' +
    'one counter. Set trustProxy of the middleware to the addresses of your proxies, or use the ' +
    'setting of your framework ("trust proxy" of Express, trustProxy of Fastify with addresses, ' +
    'proxy of Koa). ' +
    'Without a proxy in front, set trustProxy: 0.'
  emitWarning(message, 'wrong-use')
}
