/** A limit is an algorithm and its parameters; every algorithm is found here by its name. */

import type { FailureMode, OverloadMode } from '../decision.ts'
import type { Algorithm, AlgorithmName } from './algorithm.ts'
import { type ConcurrencyParams, concurrency } from './concurrency.ts'
import { type FixedWindowParams, fixedWindow } from './fixed-window.ts'
import { type SlidingLogParams, slidingLog } from './sliding-log.ts'
import { type SlidingWindowParams, slidingWindow } from './sliding-window.ts'
import { type TokenBucketParams, tokenBucket } from './token-bucket.ts'

export type Limit = Readonly<
  TokenBucketParams | SlidingWindowParams | SlidingLogParams | FixedWindowParams | ConcurrencyParams
> & {
  /** What holds while the store does not answer; where absent, what the limiter says. */
  readonly onStoreError?: FailureMode
  /** What holds for calls that the store cannot judge in time; if absent, the limiter decides. */
  readonly onOverload?: OverloadMode
  /** Whether every decision is the store's own; where absent, hot keys may be answered here. */
  readonly accuracy?: Accuracy
  /** Into how many parts its counters are divided, over several servers. */
  readonly split?: number
}

/**
 * `exact`: every decision is made by the store. `leased`: the same limits, never exceeded, but a
 * process may answer for hot keys itself, from units that the store has set aside for it. `synced`:
 * every process counts by itself and tells the store ten times a second; the limit may be exceeded
 * by what comes in between.
 */
export const accuracies = ['exact', 'leased', 'synced'] as const

export type Accuracy = (typeof accuracies)[number]

const algorithms = { tokenBucket, slidingWindow, slidingLog, fixedWindow, concurrency }

/**
 * The algorithm of that name. Its parameters and state are erased here: a counter is kept under its
 * algorithm's name, so that a state only ever meets the algorithm that made it.
 */
export function algorithmNamed(name: AlgorithmName): Algorithm<Limit, object> {
  return algorithms[name] as unknown as Algorithm<Limit, object>
}

/** The most units that can be had at once. */
export function mostOf(limit: Limit): number {
  return limit.algorithm === 'tokenBucket' ? limit.burst : limit.limit
}

const MONTH_MS_MAX = 31 * 86_400_000

/** For what never drains, because its limit is 0 now. */
const LASTS_MS_MAX = 400 * 86_400_000

/** The longest time that units used of a limit, up to all of it, can matter. */
export function lastsMs(limit: Limit): number {
  switch (limit.algorithm) {
    case 'tokenBucket':
      return limit.limit === 0 ? LASTS_MS_MAX : Math.ceil((limit.burst * limit.perMs) / limit.limit)
    case 'slidingWindow':
      return 2 * limit.perMs
    case 'slidingLog':
      return limit.perMs
    case 'fixedWindow':
      return typeof limit.per === 'number' ? limit.per : MONTH_MS_MAX
    case 'concurrency':
      return 0
  }
}
