/** Test suites for stores and middlewares. Needs vitest, which the library itself does not. */

export { middlewareContract } from './http/contract/middleware-contract.ts'
export {
  idempotencyStoreContract,
  type MakeIdempotencyStore,
} from './idempotency/contract/idempotency-store-contract.ts'
export { type MakeStore, storeContract } from './stores/contract/store-contract.ts'
