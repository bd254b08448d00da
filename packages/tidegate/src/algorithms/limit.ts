/** A limit is an algorithm and its parameters; every algorithm is found here by its name. */

import type { FailureMode } from '../decision.ts'
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
}

const algorithms = { tokenBucket, slidingWindow, slidingLog, fixedWindow, concurrency }

/**
 * The algorithm of that name. Its parameters and state are erased here: a counter is kept under its
 * algorithm's name, so that a state only ever meets the algorithm that made it.
 */
export function algorithmNamed(name: AlgorithmName): Algorithm<Limit, object> {
  return algorithms[name] as unknown as Algorithm<Limit, object>
}
