/** One server of an upstream: its connections, its connection slots and its health. */

import type { UpstreamSection } from '../../policy/schema/upstreams-section.ts'
import { ConnectionSlots } from './connection-slots.ts'
import type { PoolTls } from './http1/connection-pool.ts'
import { TargetHealth, type TargetObserver, type TargetStatus } from './target-health.ts'
import type { CreateClient, UpstreamClient } from './upstream-client.ts'

/** The content of TLS files, for all targets of an upstream. */
export interface TargetTls {
  readonly ca: Buffer | undefined
  readonly cert: Buffer | undefined
  readonly key: Buffer | undefined
  readonly serverName: string | undefined
}

export class Target {
  readonly origin: string
  /** Its name in `Host`. */
  readonly host: string
  readonly pool: UpstreamClient
  readonly slots: ConnectionSlots
  readonly health: TargetHealth

  constructor(
    origin: string,
    settings: UpstreamSection,
    tls: TargetTls | undefined,
    createClient: CreateClient,
    observer: TargetObserver,
  ) {
    this.origin = origin
    this.health = new TargetHealth(settings.ejection, observer)
    this.slots = new ConnectionSlots({
      connectionsMax: settings.connectionsMax,
      slotsMax: settings.waitingMax,
      clientShareMax: settings.clientShareMax,
      waitMsMax: settings.timeouts.wait,
    })
    const url = new URL(origin)
    this.host = url.host
    this.pool = createClient({
      origin: url,
      timeouts: settings.timeouts,
      tls: url.protocol === 'https:' ? poolTls(url, tls) : undefined,
    })
  }

  /** For `/status`. Open WebSockets are not in flight. */
  status(): TargetStatus & Readonly<Record<'target' | 'inFlight' | 'waiting', string | number>> {
    const { connected, count } = this.slots
    return {
      target: this.origin,
      ...this.health.status(),
      inFlight: connected,
      waiting: count - connected,
    }
  }
}

/** The expected name never comes from the `Host` of a client. */
function poolTls({ hostname }: URL, tls: TargetTls | undefined): PoolTls {
  const { ca, cert, key, serverName = hostname } = tls ?? {}
  return { ca, cert, key, serverName }
}
