/**
 * The definitions of the algorithms, implemented a second time and as plainly as possible: no code
 * of the library, no early expiry, exact arithmetic with BigInt. Slow and obvious. Each oracle
 * serves one key.
 */

export interface Oracle {
  /** Decides on one unit at that moment, charges it if it is allowed, and returns the rest. */
  check(nowMs: number): { readonly isAllowed: boolean; readonly remaining: number }
}

export interface Rule {
  readonly limit: number
  readonly perMs: number
}

/** A bucket of `limit` tokens, full at first, into which `limit / per` flows evenly. */
export function tokenBucketOracle({ limit, perMs }: Rule): Oracle {
  // In tokens × per, so that a millisecond adds `limit`.
  const [per, rate] = [BigInt(perMs), BigInt(limit)]
  const full = rate * per
  let content = full
  let atMs = 0
  return {
    check(nowMs) {
      content += BigInt(nowMs - atMs) * rate
      if (content > full) content = full
      atMs = nowMs
      const isAllowed = content >= per
      if (isAllowed) content -= per
      return { isAllowed, remaining: Number(content / per) }
    },
  }
}

/** Windows are numbered from 1970; each has its own count. */
export function fixedWindowOracle({ limit, perMs }: Rule): Oracle {
  const counts = new Map<number, number>()
  return {
    check(nowMs) {
      const window = Math.floor(nowMs / perMs)
      const count = counts.get(window) ?? 0
      const isAllowed = count < limit
      if (isAllowed) counts.set(window, count + 1)
      return { isAllowed, remaining: limit - (counts.get(window) ?? 0) }
    },
  }
}

/**
 * Fixed windows in which the previous one counts by its share that is still within the last `per`.
 */
export function slidingWindowOracle({ limit, perMs }: Rule): Oracle {
  const counts = new Map<number, number>()
  const per = BigInt(perMs)
  return {
    check(nowMs) {
      const window = Math.floor(nowMs / perMs)
      const partLeft = BigInt((window + 1) * perMs - nowMs)
      const previous = BigInt(counts.get(window - 1) ?? 0) * partLeft
      const count = counts.get(window) ?? 0
      // The rest after this unit, in units × per.
      const left = BigInt(limit) * per - previous - BigInt(count) * per
      const isAllowed = left >= per
      if (isAllowed) counts.set(window, count + 1)
      const after = isAllowed ? left - per : left
      return { isAllowed, remaining: after > 0n ? Number(after / per) : 0 }
    },
  }
}

/** The times of all admitted units; those within the last `per` count. */
export function slidingLogOracle({ limit, perMs }: Rule): Oracle {
  const log = trailingCount(perMs)
  return {
    check(nowMs) {
      const count = log.at(nowMs)
      const isAllowed = count < limit
      if (isAllowed) log.add(nowMs)
      return { isAllowed, remaining: limit - (isAllowed ? count + 1 : count) }
    },
  }
}

export interface TrailingCount {
  /** The number of additions within the `per` that ends now; exactly `per` ago is outside. */
  at(nowMs: number): number
  add(nowMs: number): void
}

export function trailingCount(perMs: number): TrailingCount {
  const moments: number[] = []
  let first = 0
  return {
    at(nowMs) {
      while (first < moments.length && (moments[first] as number) + perMs <= nowMs) first++
      return moments.length - first
    },
    add(nowMs) {
      // Drops old entries from time to time, else the array would hold every decision of the trace.
      if (first > 1_000) {
        moments.splice(0, first)
        first = 0
      }
      moments.push(nowMs)
    },
  }
}
