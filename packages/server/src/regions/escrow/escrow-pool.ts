/**
 * The units of one key that a process has leased from the home of the key, and when to lease more.
 * Pure: no clock and no I/O; times are those of the caller's steady clock, in milliseconds.
 *
 * Invariant: a unit is spent only while the store of the home certainly holds its block. The home
 * counts the life of a block from when it answers, the holder from when it asks, which is earlier;
 * and the holder stops well before. A block that is not settled is charged whole, so a lost message
 * or a dead process costs units and never creates them.
 */

/** A lease at the home of the key. */
export interface Block {
  readonly id: string
  readonly granted: number
  readonly sentMs: number
  left: number
}

export interface EscrowPool {
  /** The oldest first. */
  readonly blocks: Block[]
  /** Units that are left at home besides blocks, by its last answer; undefined before it. */
  known: number | undefined
  /** Units asked for per second, smoothed. */
  perSecond: number
  /** Units asked for since `tickMs`. */
  demand: number
  /** Requests of the last second or so: each counts less from tick to tick. */
  requests: number
  tickMs: number
  usedMs: number
  /** True while an answer is awaited. */
  isAsking: boolean
  /** No block is asked for before this time, because the home had none to give. */
  pausedUntilMs: number
}

export interface PoolSettings {
  readonly regions: number
  readonly roundTripMs: number
  /** The units of the home in all. */
  readonly capacity: number
}

/** How long the home keeps a block that is not settled. */
export const BLOCK_TTL_MS = 10_000

/** A margin of 2 s for clocks that do not run equally fast, which is 20 %. */
const SPEND_MS_MAX = 8_000

/** Units come back to all regions by then, also if the key is used all the time. */
const SETTLE_MS = 5_000

/** A key that was not used for this time gives its units back. */
const IDLE_MS = 1_000

/** A block should last for this time. */
const HORIZON_MS = 1_000

/** Time for an answer, besides two round trips: the next block arrives before this one is used. */
const MARGIN_MS = 200

/**
 * Keys with fewer requests per second are decided by their reserve and their home, one by one: a
 * block that is asked for, hardly used and settled has more bytes than these decisions. The first
 * request of a key says nothing about its rate.
 */
const HOT_PER_SECOND = 2

/** How long a request counts for the rate, on average. */
const HOT_MS = 1_000

/** A region asks for at most this part of its fair share, so that the last units are found. */
const FAIR_PARTS = 4

/** Weight of the latest interval in the smoothed rate, for an interval of 100 ms. */
const SMOOTHING_MS = 300

/** After a home had nothing to give. */
const PAUSE_MS = 200

export function newPool(nowMs: number): EscrowPool {
  return {
    ...{ blocks: [], known: undefined, perSecond: 0, demand: 0, requests: 0 },
    ...{ tickMs: nowMs, usedMs: nowMs, isAsking: false, pausedUntilMs: 0 },
  }
}

/** Units that can be spent now. */
export function leftOf({ blocks }: EscrowPool, nowMs: number): number {
  let left = 0
  for (const block of blocks) if (isSpendable(block, nowMs)) left += block.left
  return left
}

/** Takes `cost` units, or nothing. */
export function spend(pool: EscrowPool, cost: number, nowMs: number): boolean {
  pool.demand += cost
  pool.requests++
  pool.usedMs = nowMs
  if (leftOf(pool, nowMs) < cost) return false
  let wanted = cost
  for (const block of pool.blocks) {
    if (!isSpendable(block, nowMs)) continue
    const taken = Math.min(block.left, wanted)
    block.left -= taken
    wanted -= taken
    if (wanted === 0) break
  }
  return true
}

/** Puts units back that were spent and then not needed; those of settled blocks are lost. */
export function unspend(pool: EscrowPool, cost: number, nowMs: number): void {
  let back = cost
  for (const block of pool.blocks) {
    if (!isSpendable(block, nowMs)) continue
    const room = Math.min(block.granted - block.left, back)
    block.left += room
    back -= room
  }
}

/** Units to ask for now; 0 if none. */
export function unitsToAsk(pool: EscrowPool, nowMs: number, settings: PoolSettings): number {
  const { regions, roundTripMs, capacity } = settings
  if (pool.isAsking || nowMs < pool.pausedUntilMs) return 0
  if (pool.requests < HOT_PER_SECOND) return 0
  const perSecond = rateOf(pool, nowMs)
  const lowMs = 2 * roundTripMs + MARGIN_MS
  if (leftOf(pool, nowMs) >= (perSecond * lowMs) / 1_000) return 0
  // Nothing is known of a new key: a smaller part, so that several regions can begin at once.
  const most = pool.known ?? capacity / FAIR_PARTS
  const wanted = Math.ceil((perSecond * (HORIZON_MS + lowMs)) / 1_000)
  return Math.min(wanted, Math.floor(most / (FAIR_PARTS * regions)))
}

/** The home has answered a request for a block. */
export function answered(
  pool: EscrowPool,
  block: Block | undefined,
  remaining: number,
  nowMs: number,
): void {
  pool.isAsking = false
  pool.known = remaining
  if (block === undefined || block.granted === 0) pool.pausedUntilMs = nowMs + PAUSE_MS
  else pool.blocks.push(block)
}

/** The home has not answered: its outcome is unknown, and such a block is never spent. */
export function unanswered(pool: EscrowPool, nowMs: number): void {
  pool.isAsking = false
  pool.pausedUntilMs = nowMs + PAUSE_MS
}

/**
 * Removes and returns the blocks to be settled: used up, idle, or old. Those that the home has
 * charged already are dropped. `all` is for a process that stops.
 */
export function blocksToSettle(pool: EscrowPool, nowMs: number, all = false): readonly Block[] {
  const isIdle = nowMs - pool.usedMs > IDLE_MS
  const settled: Block[] = []
  for (let at = pool.blocks.length - 1; at >= 0; at--) {
    const block = pool.blocks[at] as Block
    const isDone = all || isIdle || block.left === 0 || nowMs - block.sentMs > SETTLE_MS
    if (!isDone) continue
    pool.blocks.splice(at, 1)
    if (isSpendable(block, nowMs)) settled.push(block)
  }
  return settled
}

/** Updates the rate. Call it about every 100 ms. */
export function tick(pool: EscrowPool, nowMs: number): void {
  const elapsedMs = nowMs - pool.tickMs
  if (elapsedMs <= 0) return
  const perSecond = (pool.demand * 1_000) / elapsedMs
  const weight = 1 - Math.exp(-elapsedMs / SMOOTHING_MS)
  pool.perSecond += (perSecond - pool.perSecond) * weight
  pool.requests *= Math.exp(-elapsedMs / HOT_MS)
  pool.demand = 0
  pool.tickMs = nowMs
}

/** True if the pool has nothing and was not used for a while. */
export function isForgettable(pool: EscrowPool, nowMs: number): boolean {
  return pool.blocks.length === 0 && !pool.isAsking && nowMs - pool.usedMs > IDLE_MS
}

/** The smoothed rate, or that of a burst since the last tick if it is higher. */
function rateOf({ perSecond, demand, tickMs }: EscrowPool, nowMs: number): number {
  const sinceMs = Math.max(nowMs - tickMs, SMOOTHING_MS)
  return Math.max(perSecond, (demand * 1_000) / sinceMs)
}

function isSpendable({ sentMs }: Block, nowMs: number): boolean {
  return nowMs - sentMs < SPEND_MS_MAX
}
