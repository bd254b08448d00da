/** The public entry point of the library. */

export { type AlgorithmName, algorithmNames } from './algorithms/algorithm.ts'
export type { CalendarUnit } from './algorithms/calendar.ts'
export { type Accuracy, accuracies, type Limit } from './algorithms/limit.ts'
export { type Clock, type ManualClock, manualClock, systemClock } from './clock.ts'
export {
  combineDecisions,
  type Decision,
  type DecisionSource,
  type Degraded,
  type FailureMode,
  failureModes,
  type LayeredDecision,
  type OverloadMode,
  overloadModes,
} from './decision.ts'
export { type ErrorCode, errorCodes, TidegateError } from './errors.ts'
export { createLimiter } from './limiter/create-limiter.ts'
export type {
  AppliedLimit,
  CheckOptions,
  ContextOptions,
  CostOptions,
  Evaluation,
  LayeredLimitOptions,
  Limiter,
  LimiterMeter,
  LimiterOptions,
  ReserveOptions,
  SingleLimitOptions,
} from './limiter/limiter.ts'
export type { Reservation, Slot } from './limiter/reservation.ts'
export type { WaitOptions } from './limiter/wait-queue.ts'
export type { Duration } from './limits/duration.ts'
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
} from './limits/limits.ts'
export type { BreakerState, LimiterEvent, Meter, Observer } from './observer.ts'
export type { CallBounds } from './stores/call-bounds.ts'
export { chargeOneAsGroup, chargeSingle } from './stores/charge-one.ts'
export { frontStore } from './stores/front-store.ts'
export type { BreakerOptions, GuardedOptions } from './stores/guarded/guarded-options.ts'
export { guardedStore } from './stores/guarded/guarded-store.ts'
export {
  type MemoryStore,
  type MemoryStoreOptions,
  memoryStore,
} from './stores/memory/memory-store.ts'
export type {
  Adjustment,
  Callback,
  Charge,
  ChargeMode,
  Counter,
  HeldKeys,
  HotKey,
  MaybePromise,
  Store,
  StoreCapabilities,
  StoreTimes,
} from './stores/store.ts'
