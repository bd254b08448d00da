/** The public entry point of the library. */

export type { AlgorithmName } from './algorithms/algorithm.ts'
export type { CalendarUnit } from './algorithms/calendar.ts'
export { type Accuracy, accuracies, type Limit } from './algorithms/limit.ts'
export { type Clock, type ManualClock, manualClock, systemClock } from './clock.ts'
export {
  type Decision,
  type Degraded,
  type FailureMode,
  failureModes,
  type LayeredDecision,
  type OverloadMode,
  overloadModes,
} from './decision.ts'
export { type ErrorCode, errorCodes, TidegateError } from './errors.ts'
export { combineDecisions } from './keys.ts'
export {
  type AppliedLimit,
  type CheckOptions,
  type ContextOptions,
  type CostOptions,
  createLimiter,
  type Evaluation,
  frontStore,
  type LayeredLimitOptions,
  type Limiter,
  type LimiterOptions,
  type ReserveOptions,
  type SingleLimitOptions,
} from './limiter.ts'
export type { BreakerState, LimiterEvent, Observer } from './observer.ts'
export type { Duration } from './policy/duration.ts'
export {
  type ConcurrencyOptions,
  concurrency,
  type FixedWindowOptions,
  fixedWindow,
  type LimitRule,
  slidingLog,
  slidingWindow,
  type TokenBucketOptions,
  tokenBucket,
  type Units,
} from './policy/limits.ts'
export type { Reservation, Slot } from './reservation.ts'
export type { BreakerOptions, GuardedOptions } from './stores/guarded/guarded-options.ts'
export { guardedStore } from './stores/guarded/guarded-store.ts'
export type { HotKey } from './stores/leased/leased-store.ts'
export {
  type MemoryStore,
  type MemoryStoreOptions,
  memoryStore,
} from './stores/memory/memory-store.ts'
export type {
  Adjustment,
  CallBounds,
  Charge,
  ChargeMode,
  Counter,
  MaybePromise,
  Receiver,
  Store,
  StoreTimes,
} from './stores/store.ts'
export type { WaitOptions } from './wait-queue.ts'
