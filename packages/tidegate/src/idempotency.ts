/**
 * Idempotency keys without a framework: their stores, and the core that a middleware or a gateway
 * of your own uses. The middlewares are in `tidegate/idempotency/express` and its siblings.
 */

export { isCharged } from './idempotency/charged.ts'
export type { Execution, Finished } from './idempotency/execution.ts'
export {
  createIdempotency,
  type Idempotency,
  KEY_FIELD,
  type KeyedRequest,
  REPLAYED_FIELD,
  type Start,
} from './idempotency/idempotency.ts'
export type { IdempotencyEvent } from './idempotency/idempotency-event.ts'
export {
  type IdempotencyFailureMode,
  type IdempotencyOptions,
  type IdempotencySettings,
  idempotencyFailureModes,
  REQUEST_BYTES_MAX,
  retryStatusesDefault,
} from './idempotency/idempotency-options.ts'
export { keptFields, keptOfList } from './idempotency/kept-fields.ts'
export {
  type IdempotencyProblem,
  type IdempotencyProblemCode,
  idempotencyProblem,
  idempotencyProblems,
  problemFields,
} from './idempotency/problem.ts'
export {
  KEPT_BYTES_MAX,
  type KeptResponse,
  type NotKept,
} from './idempotency/stored-response.ts'
export {
  type Claim,
  type ClaimResult,
  type Completion,
  type IdempotencyStore,
  type KeyState,
  LEASE_MS_MAX,
  type Release,
  type Remains,
  type Renewal,
} from './idempotency/stores/idempotency-store.ts'
export {
  type MemoryIdempotencyStoreOptions,
  memoryIdempotencyStore,
} from './idempotency/stores/memory-idempotency-store.ts'
export {
  type RedisIdempotencyStoreOptions,
  redisIdempotencyStore,
} from './idempotency/stores/redis-idempotency-store.ts'
