/** A limit is an algorithm and its parameters. This file finds an algorithm by its name. */

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
  /** Applies while the store does not answer. Default: the limiter's. */
  readonly onStoreError?: FailureMode
  /** Applies to calls that the store cannot decide in time. Default: the limiter's. */
  readonly onOverload?: OverloadMode
  /** How exact decisions are. Default: `leased`. */
  readonly accuracy?: Accuracy
  /** Number of parts of each counter, on several servers. Default: 1. */
  readonly split?: number
}

/**
 * `exact`: the store makes every decision. `leased`: a process may decide about hot keys itself,
 * from units that the store has set aside for it; the limit is never exceeded. `synced`: every
 * process counts by itself and reports to the store ten times a second; the limit may be exceeded
 * by the requests between two reports.
 */
export const accuracies = ['exact', 'leased', 'synced'] as const

export type Accuracy = (typeof accuracies)[number]

const algorithms = { tokenBucket, slidingWindow, slidingLog, fixedWindow, concurrency }

/**
 * The algorithm of that name, without the types of its parameters and state. A counter is kept
 * under its algorithm's name, so that a state only ever meets the algorithm that made it.
 */
export function algorithmNamed(name: AlgorithmName): Algorithm<Limit, object> {
  return algorithms[name] as unknown as Algorithm<Limit, object>
}

/** Capacity: the largest cost that can be granted at once. */
export function capacityOf(limit: Limit): number {
  return limit.algorithm === 'tokenBucket' ? limit.burst : limit.limit
}

const MONTH_MS_MAX = 31 * 86_400_000

/** For a state that never drains, because its limit is 0 now. */
const LIFETIME_MS_MAX = 400 * 86_400_000

/** The longest time that used units of a limit, up to all of it, can matter. */
export function lifetimeMs(limit: Limit): number {
  switch (limit.algorithm) {
    case 'tokenBucket':
      return limit.limit === 0
        ? LIFETIME_MS_MAX
        : Math.ceil((limit.burst * limit.perMs) / limit.limit)
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
