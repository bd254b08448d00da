/**
 * One server of an upstream: its connections, how many requests it has, and how well it does. Two
 * things take it out of the turns: health checks that fail, and answers that keep failing, which
 * ejects it for a while.
 */

import { isIP } from 'node:net'
import { buildConnector, Pool } from 'undici'
import type { UpstreamSection } from '../../policy/gateway-section.ts'
import { Places } from './places.ts'

/** What is read from files once, for all targets of an upstream. */
export interface TargetTls {
  readonly ca: Buffer | undefined
  readonly cert: Buffer | undefined
  readonly key: Buffer | undefined
  readonly serverName: string | undefined
}

/** Answers of honest servers have far less; more would only fill memory. */
const RESPONSE_HEADER_BYTES_MAX = 64 * 1_024

export class Target {
  readonly origin: string
  readonly pool: Pool
  /** Goes with every request, so that no Host of a client decides whose certificate is expected. */
  readonly serverName: string
  readonly places: Places
  isHealthy = true
  #failures = 0
  #ejectedUntilMs = 0
  readonly #ejection: UpstreamSection['ejection']

  constructor(origin: string, settings: UpstreamSection, tls: TargetTls | undefined) {
    this.origin = origin
    this.#ejection = settings.ejection
    this.serverName = tls?.serverName ?? new URL(origin).hostname
    this.places = new Places({
      connectionsMax: settings.connectionsMax,
      placesMax: settings.waitingMax,
      clientShareMax: settings.clientShareMax,
      waitMsMax: settings.timeouts.wait,
    })
    // Requests wait in their places, not here. A check must not fail because others are waiting.
    const forChecks = settings.healthCheck === undefined ? 0 : 1
    this.pool = new Pool(origin, {
      connections: settings.connectionsMax + forChecks,
      pipelining: 1,
      allowH2: false,
      maxHeaderSize: RESPONSE_HEADER_BYTES_MAX,
      headersTimeout: settings.timeouts.response,
      bodyTimeout: settings.timeouts.idle,
      connect: connector(settings, tls, this.serverName),
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

function connector(
  { timeouts }: UpstreamSection,
  tls: TargetTls | undefined,
  serverName: string,
): buildConnector.connector {
  const connect = buildConnector({
    timeout: timeouts.connect,
    allowH2: false,
    ...(tls?.ca && { ca: tls.ca }),
    ...(tls?.cert && { cert: tls.cert }),
    ...(tls?.key && { key: tls.key }),
  })
  // A name that is an address is checked as an address, and is nothing to ask a server for.
  const name = isIP(serverName.replace(/^\[|\]$/g, '')) === 0 ? serverName : ''
  return (options, callback) => connect({ ...options, servername: name }, callback)
}
