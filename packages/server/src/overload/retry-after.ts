/** When a client that was shed should try again. */

/**
 * From 1 to 5 s at random: clients that were refused together do not come back together, and the
 * longest wait is not longer than an overload that ends by itself.
 */
export const RETRY_SECONDS_MAX = 5

/** A whole number of seconds. `random` is from 0 to below 1. */
export function retryAfterSeconds(random = Math.random()): number {
  return 1 + Math.floor(random * RETRY_SECONDS_MAX)
}
