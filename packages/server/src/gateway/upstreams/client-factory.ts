/** Chooses the HTTP/1 client of upstreams by `gateway.transport`. */

import type { Transport } from '../../policy/schema/listener-section.ts'
import { ConnectionPool } from './http1/connection-pool.ts'
import type { CreateClient } from './upstream-client.ts'

/** Loads undici only if it is used: it takes 100 ms and 29 MB. */
export async function clientFactory(transport: Transport): Promise<CreateClient> {
  if (transport === 'own') return (options) => new ConnectionPool(options)
  const { UndiciClient } = await import('./undici/undici-client.ts')
  return (options) => new UndiciClient(options)
}
