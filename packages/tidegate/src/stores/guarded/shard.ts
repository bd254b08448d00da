import type { Breaker } from './breaker.ts'

/** A shard, and when it stopped answering. */
export interface Shard {
  readonly breaker: Breaker
  downSinceMs: number | undefined
}
