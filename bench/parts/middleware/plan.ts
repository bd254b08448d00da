/** The settings of a server under bench/middleware.ts. */

export interface MiddlewarePlan {
  readonly framework: 'express' | 'fastify'
  /** `none` is the framework alone: the most that any limiter could reach. */
  readonly limiter: 'tidegate' | 'peer' | 'none'
  /** If undefined, counters are in memory and the key is the client's address. */
  readonly redisUrl: string | undefined
}

/** High enough that everything is admitted: the cost of an admitted request is compared. */
export const LIMIT = 1_000_000_000
export const WINDOW_MS = 60_000
