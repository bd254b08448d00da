/** The limiters under bench/burst.ts, and the work that one process gets. */

export const OURS = 'Tidegate'
export const PEER = 'rate-limiter-flexible'
export const YARDSTICK = 'bare EVALSHA'

export const contenderNames = [OURS, PEER, YARDSTICK] as const

export type BurstContenderName = (typeof contenderNames)[number]

export interface ContenderPlan {
  readonly contender: BurstContenderName
  readonly url: string
  /** Units of each key per day. */
  readonly limit: number
  readonly isWarm: boolean
}
