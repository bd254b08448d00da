/** What a server under bench/middleware.ts is told. */

export interface MiddlewarePlan {
  readonly framework: 'express' | 'fastify'
  readonly isOurs: boolean
  /** Without it the counters are in memory, and the key is the client's address. */
  readonly redisUrl: string | undefined
}

/** High enough that everything is admitted: what is compared is the way of an admitted request. */
export const LIMIT = 1_000_000_000
export const WINDOW_MS = 60_000
