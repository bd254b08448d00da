/**
 * An upstream: servers that do the same, taken in turns. Those that are not well get no requests
 * as long as others are. Where every one was ejected they are all used again: answers that fail
 * can be a client's doing, and must not take everybody's upstream away.
 */

import type { UpstreamSection } from '../../policy/gateway-section.ts'
import type { GatewayRequest, GatewayResponse, MaybePromise } from '../message.ts'
import { refusal } from '../refusal.ts'
import { type Attempts, exchange } from './exchange.ts'
import { watchHealth } from './health-check.ts'
import { Target, type TargetTls } from './target.ts'

export class Upstream implements Attempts {
  readonly name: string
  readonly targets: readonly Target[]
  readonly retries: number
  readonly #waitingMax: number
  readonly #stopChecks: () => void
  #turn = 0

  constructor(name: string, settings: UpstreamSection, tls: TargetTls | undefined) {
    this.name = name
    this.retries = settings.retries
    this.#waitingMax = settings.waitingMax
    this.targets = settings.targets.map((origin) => new Target(origin, settings, tls))
    this.#stopChecks = watchHealth(this.targets, settings.healthCheck)
  }

  send(request: GatewayRequest): MaybePromise<GatewayResponse> {
    const target = this.next([])
    if (target === undefined) return refusal(503, 'No server of the upstream is well.')
    if (target.underWay >= this.#waitingMax) {
      return refusal(503, 'The upstream has too many requests.', ['retry-after', '1'])
    }
    return exchange(request, target, this)
  }

  next(tried: readonly Target[]): Target | undefined {
    const nowMs = performance.now()
    return (
      this.#find((target) => target.isHealthy && !target.isEjected(nowMs), tried) ??
      this.#find((target) => target.isHealthy, tried)
    )
  }

  /** Ends when the requests under way have ended. */
  async close(): Promise<void> {
    this.#stopChecks()
    await Promise.all(this.targets.map(({ pool }) => pool.close()))
  }

  async destroy(): Promise<void> {
    this.#stopChecks()
    await Promise.all(this.targets.map(({ pool }) => pool.destroy()))
  }

  #find(isFit: (target: Target) => boolean, tried: readonly Target[]): Target | undefined {
    const { targets } = this
    for (let step = 0; step < targets.length; step += 1) {
      const target = targets[(this.#turn + step) % targets.length] as Target
      if (tried.includes(target) || !isFit(target)) continue
      this.#turn = (this.#turn + step + 1) % targets.length
      return target
    }
    return undefined
  }
}
