/** What stores and middlewares are tested with. Needs vitest, which the library itself does not. */

export { middlewareContract } from './http/middleware-contract.ts'
export { type MakeStore, storeContract } from './stores/store-contract.ts'
