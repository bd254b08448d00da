/**
 * An upstream: servers that do the same, taken in turns. Those that are not well get no requests
 * as long as others are. Where every one was ejected they are all used again: answers that fail
 * can be a client's doing, and must not take everybody's upstream away.
 */

import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { UpstreamSection } from '../../policy/gateway-section.ts'
import type { GatewayRequest, GatewayResponse, MaybePromise } from '../message.ts'
import { refusal } from '../refusal.ts'
import { type Attempts, exchange } from './exchange.ts'
import { watchHealth } from './health-check.ts'
import { Target, type TargetTls } from './target.ts'
import { upstreamProblem } from './upstream-problem.ts'

/** Requests that have found their route may still be on their way, such as to the store. */
const GRACE_MS = 10_000

const LOOK_INTERVAL_MS = 1_000

export class Upstream implements Attempts {
  readonly name: string
  readonly targets: readonly Target[]
  readonly retries: number
  readonly #stopChecks: () => void
  #turn = 0
  /** Requests whose body is still arriving. */
  #arriving = 0
  #isDestroyed = false

  constructor(name: string, settings: UpstreamSection, tls: TargetTls | undefined) {
    this.name = name
    this.retries = settings.retries
    this.targets = settings.targets.map((origin) => new Target(origin, settings, tls))
    this.#stopChecks = watchHealth(this.targets, settings.healthCheck)
  }

  send(request: GatewayRequest): MaybePromise<GatewayResponse> {
    if (!request.hasBody) return this.#forward(request, null)
    // Nobody should send a body only to hear then that there is no place for it.
    const isPossible = this.targets.some(
      ({ isHealthy, places }) => isHealthy && places.hasRoom(request.client),
    )
    return isPossible ? this.#takeBody(request) : this.#noTarget()
  }

  next(tried: readonly Target[], client: string): Target | undefined {
    const nowMs = performance.now()
    return (
      this.#find((target) => !target.isEjected(nowMs), tried, client) ??
      this.#find(() => true, tried, client)
    )
  }

  /** Ends when the requests under way have ended, and those that are about to come. */
  async close(): Promise<void> {
    this.#stopChecks()
    await sleep(GRACE_MS, undefined, { ref: false })
    while (!this.#isDestroyed && this.#isInUse()) {
      await sleep(LOOK_INTERVAL_MS, undefined, { ref: false })
    }
    this.destroy()
  }

  destroy(): void {
    this.#isDestroyed = true
    this.#stopChecks()
    for (const { pool } of this.targets) pool.destroy()
  }

  async #takeBody(request: GatewayRequest): Promise<GatewayResponse> {
    this.#arriving += 1
    try {
      const body = await request.body()
      return await this.#forward(request, body)
    } catch (error) {
      // Only a body rejects, and says by its code what is wrong with it.
      if (!(error instanceof Error && 'code' in error)) throw error
      return upstreamProblem(error)
    } finally {
      this.#arriving -= 1
    }
  }

  #forward(request: GatewayRequest, body: Buffer | Readable | null): MaybePromise<GatewayResponse> {
    const target = this.next([], request.client)
    if (target !== undefined) return exchange(request, body, target, this)
    if (body !== null && !Buffer.isBuffer(body)) body.destroy()
    return this.#noTarget()
  }

  #noTarget(): GatewayResponse {
    if (!this.targets.some(({ isHealthy }) => isHealthy)) {
      return refusal(503, 'No server of the upstream is well.')
    }
    return refusal(503, 'The upstream has too many requests.', ['retry-after', '1'])
  }

  #find(
    isFit: (target: Target) => boolean,
    tried: readonly Target[],
    client: string,
  ): Target | undefined {
    const { targets } = this
    for (let step = 0; step < targets.length; step += 1) {
      const target = targets[(this.#turn + step) % targets.length] as Target
      if (tried.includes(target) || !target.isHealthy || !isFit(target)) continue
      if (!target.places.hasRoom(client)) continue
      this.#turn = (this.#turn + step + 1) % targets.length
      return target
    }
    return undefined
  }

  #isInUse(): boolean {
    return this.#arriving > 0 || this.targets.some(({ places }) => places.count > 0)
  }
}
