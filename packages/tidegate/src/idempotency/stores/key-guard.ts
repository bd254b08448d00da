/**
 * The circuit breakers in front of a store of idempotency keys, one for each shard. While one is
 * open, calls are rejected at once, so that a request does not wait for a deadline during an
 * outage. Overload and mistakes in the configuration never open a breaker.
 */

import { steadyClock } from '../../clock.ts'
import { TidegateError } from '../../errors.ts'
import { type Observer, safely } from '../../observer.ts'
import type { Breaker, BreakerSettings } from '../../stores/guarded/breaker.ts'
import { Shards } from '../../stores/guarded/shards.ts'

export interface KeyGuardOptions {
  readonly breaker: BreakerSettings
  readonly observer: Observer | undefined
  /** The name of the shard of a key. */
  shardOf(key: string): string
}

export class KeyGuard {
  readonly #shards: Shards<string>
  /** One error for all: in a flood, the stack of each would cost more than a response. */
  readonly #open = new TidegateError(
    'store-unreachable',
    'the store of idempotency keys is down, and its circuit breaker is open',
  )

  constructor({ breaker, observer, shardOf }: KeyGuardOptions) {
    this.#shards = new Shards(shardOf, breaker, safely(observer))
  }

  /** Admits a call, whose outcome must be reported; throws while the breaker is open. */
  begin(key: string): GuardedCall {
    const { breaker } = this.#shards.of(key)
    const startMs = steadyClock.now()
    if (!breaker.admits(startMs)) throw this.#open
    return new GuardedCall(breaker, startMs)
  }
}

export class GuardedCall {
  readonly #breaker: Breaker
  readonly #startMs: number
  readonly #isProbe: boolean

  constructor(breaker: Breaker, startMs: number) {
    this.#breaker = breaker
    this.#startMs = startMs
    this.#isProbe = breaker.state !== 'closed'
  }

  succeed(): void {
    this.#breaker.succeed(this.#startMs, this.#isProbe)
  }

  fail(error: unknown): void {
    const code = error instanceof TidegateError ? error.code : 'store-failed'
    if (code === 'store-timeout') {
      this.#breaker.fail(steadyClock.now(), this.#isProbe, this.#startMs)
    } else if (code === 'store-unreachable' || code === 'store-failed') {
      this.#breaker.fail(steadyClock.now(), this.#isProbe)
    } else this.#breaker.ignore(this.#isProbe)
  }
}
