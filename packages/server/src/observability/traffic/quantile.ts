/** Quantiles from the buckets of a histogram, as the difference of two readings. */

/**
 * `counts` has the values up to each bound, and `total` those beyond the last one too. Returns an
 * estimate in the unit of the bounds; null without a value.
 */
export function quantileOf(
  share: number,
  bounds: readonly number[],
  counts: readonly number[],
  total: number,
): number | null {
  if (total <= 0) return null
  const rank = share * total
  let below = 0
  for (const [at, bound] of bounds.entries()) {
    const count = counts[at] ?? 0
    if (count >= rank) {
      const low = bounds[at - 1] ?? 0
      const inside = count - below
      return inside <= 0 ? bound : low + ((bound - low) * (rank - below)) / inside
    }
    below = count
  }
  return bounds.at(-1) ?? null
}

export interface Buckets {
  readonly counts: readonly number[]
  readonly total: number
}

export const noBuckets: Buckets = { counts: [], total: 0 }

/** The values that were observed between two readings. */
export function bucketsBetween(before: Buckets, now: Buckets): Buckets {
  const counts = now.counts.map((count, at) => Math.max(0, count - (before.counts[at] ?? 0)))
  return { counts, total: Math.max(0, now.total - before.total) }
}

export function bucketsSum(all: readonly Buckets[]): Buckets {
  const length = Math.max(0, ...all.map(({ counts }) => counts.length))
  const counts = Array.from({ length }, (_, at) =>
    all.reduce((sum, one) => sum + (one.counts[at] ?? 0), 0),
  )
  return { counts, total: all.reduce((sum, { total }) => sum + total, 0) }
}
