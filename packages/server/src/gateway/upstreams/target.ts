/**
 * One server of an upstream: its connections, how many requests it has, and how well it does. Two
 * things take it out of the turns: health checks that fail, and answers that keep failing, which
 * ejects it for a while.
 */

import type { UpstreamSection } from '../../policy/gateway-section.ts'
import { ConnectionPool, type PoolTls } from './http1/connection-pool.ts'
import { Places } from './places.ts'

/** What is read from files once, for all targets of an upstream. */
export interface TargetTls {
  readonly ca: Buffer | undefined
  readonly cert: Buffer | undefined
  readonly key: Buffer | undefined
  readonly serverName: string | undefined
}

export class Target {
  readonly origin: string
  /** As it is called in `Host`. */
  readonly host: string
  readonly pool: ConnectionPool
  readonly places: Places
  isHealthy = true
  #failures = 0
  #ejectedUntilMs = 0
  readonly #ejection: UpstreamSection['ejection']

  constructor(origin: string, settings: UpstreamSection, tls: TargetTls | undefined) {
    this.origin = origin
    this.#ejection = settings.ejection
    this.places = new Places({
      connectionsMax: settings.connectionsMax,
      placesMax: settings.waitingMax,
      clientShareMax: settings.clientShareMax,
      waitMsMax: settings.timeouts.wait,
    })
    const url = new URL(origin)
    this.host = url.host
    this.pool = new ConnectionPool({
      origin: url,
      timeouts: settings.timeouts,
      tls: url.protocol === 'https:' ? poolTls(url, tls) : undefined,
    })
  }

  isEjected(nowMs: number): boolean {
    return nowMs < this.#ejectedUntilMs
  }

  /** To be told of every answer, and of every request that got none. */
  hasAnswered(isFailure: boolean): void {
    if (!isFailure) {
      this.#failures = 0
      return
    }
    this.#failures += 1
    if (this.#failures < this.#ejection.after) return
    this.#failures = 0
    this.#ejectedUntilMs = performance.now() + this.#ejection.for
  }
}

/** No Host of a client decides whose certificate is expected. */
function poolTls({ hostname }: URL, tls: TargetTls | undefined): PoolTls {
  const { ca, cert, key, serverName = hostname } = tls ?? {}
  return { ca, cert, key, serverName }
}
