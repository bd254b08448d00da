/**
 * An upstream: equal servers that take turns. Unhealthy and ejected ones get no requests while
 * others are left. If all are ejected, all are used again: one client can cause failures, and must
 * not take the upstream away from others.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type { MaybePromise } from 'tidegate'
import type { UpstreamSection } from '../../policy/schema/upstreams-section.ts'
import type { Body } from '../body/body.ts'
import type { GatewayRequest, GatewayResponse } from '../message.ts'
import { refusal } from '../refusal.ts'
import { type Attempts, exchange } from './exchange.ts'
import { watchHealth } from './health-check.ts'
import { Target, type TargetTls } from './target.ts'
import type { TargetEvent } from './target-health.ts'
import type { CreateClient } from './upstream-client.ts'
import { upstreamProblem } from './upstream-problem.ts'

/** Called for each change of a target. */
export type UpstreamObserver = (upstream: string, target: string, event: TargetEvent) => void

/** Requests that have a route may still wait for something else, such as the store. */
const GRACE_MS = 10_000

/** A closed upstream may live this much longer than its last request. */
const CHECK_INTERVAL_MS = 1_000

export class Upstream implements Attempts {
  readonly name: string
  readonly targets: readonly Target[]
  readonly retries: number
  readonly #stopChecks: () => void
  #turn = 0
  /** Requests whose body is still arriving. */
  #arriving = 0
  #isDestroyed = false

  constructor(
    name: string,
    settings: UpstreamSection,
    tls: TargetTls | undefined,
    createClient: CreateClient,
    observer: UpstreamObserver,
  ) {
    this.name = name
    this.retries = settings.retries
    const report = (origin: string) => (event: TargetEvent) => {
      // Requests that are aborted when the gateway stops are not failures of a target.
      if (!this.#isDestroyed) observer(name, origin, event)
    }
    this.targets = settings.targets.map((origin) => {
      return new Target(origin, settings, tls, createClient, report(origin))
    })
    this.#stopChecks = watchHealth(this.targets, settings.healthCheck)
  }

  send(request: GatewayRequest): MaybePromise<GatewayResponse> {
    if (!request.hasBody) return this.#forward(request, null)
    // A client should not send a body that no target has a slot for.
    const isPossible = this.targets.some(
      ({ health, slots }) => health.isHealthy && slots.hasRoom(request.client),
    )
    return isPossible ? this.#takeBody(request) : this.#noTarget()
  }

  next(tried: readonly Target[], client: string): Target | undefined {
    return this.#find(isInUse, tried, client) ?? this.#find(isAny, tried, client)
  }

  /** Resolves when all requests that have this upstream as their route have ended. */
  async close(): Promise<void> {
    this.#stopChecks()
    await sleep(GRACE_MS, undefined, { ref: false })
    while (!this.#isDestroyed && this.#isInUse()) {
      await sleep(CHECK_INTERVAL_MS, undefined, { ref: false })
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
      // Only a body rejects with a code.
      if (!(error instanceof Error && 'code' in error)) throw error
      return upstreamProblem(error)
    } finally {
      this.#arriving -= 1
    }
  }

  #forward(request: GatewayRequest, body: Buffer | Body | null): MaybePromise<GatewayResponse> {
    const target = this.next([], request.client)
    if (target !== undefined) return exchange(request, body, target, this)
    if (body !== null && !Buffer.isBuffer(body)) body.cancel()
    return this.#noTarget()
  }

  #noTarget(): GatewayResponse {
    if (!this.targets.some(({ health }) => health.isHealthy)) {
      return refusal(503, 'No healthy upstream target.')
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
      if (tried.includes(target) || !target.health.isHealthy || !isFit(target)) continue
      if (!target.slots.hasRoom(client)) continue
      this.#turn = (this.#turn + step + 1) % targets.length
      return target
    }
    return undefined
  }

  #isInUse(): boolean {
    return this.#arriving > 0 || this.targets.some(({ slots }) => slots.count > 0)
  }
}

const isAny = () => true

function isInUse({ health }: Target): boolean {
  return !health.isEjected()
}
