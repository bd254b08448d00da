/**
 * The parts of a limit that regions have. Parts are whole numbers, so that no share is rounded up:
 * the shares of all regions together are at most the limit.
 */

import { type Limit, lifetimeMs } from '../../algorithms/limit.ts'
import { tokenBucketParams } from '../../algorithms/token-bucket.ts'
import { invalid } from '../../errors.ts'

export interface RegionShare {
  readonly name: string
  /** A weight: a whole number of at least 1. */
  readonly parts: number
}

/** A mask of regions is a number of 32 bits, and every message has a place for each region. */
export const REGIONS_MAX = 16

/** The sum of the weights. A unit of a limit is divided into as many parts. */
export const PARTS_MAX = 10_000

/** The weights without a common divisor, in the order of the regions' names. */
export function checkShares(shares: readonly RegionShare[], path: string): readonly RegionShare[] {
  if (shares.length === 0 || shares.length > REGIONS_MAX) {
    const allowed = `from 1 to ${REGIONS_MAX} regions`
    throw invalid('invalid-option', { path, value: shares.length, allowed })
  }
  for (const { name, parts } of shares) {
    if (Number.isSafeInteger(parts) && parts >= 1 && parts <= PARTS_MAX) continue
    const allowed = `a whole number from 1 to ${PARTS_MAX}`
    throw invalid('invalid-option', { path: `${path}.${name}`, value: parts, allowed })
  }
  const divisor = shares.map(({ parts }) => parts).reduce(greatestCommonDivisor)
  const reduced = shares.map(({ name, parts }) => ({ name, parts: parts / divisor }))
  const sum = sumOf(reduced.map(({ parts }) => parts))
  if (sum > PARTS_MAX) {
    const allowed = `weights with a sum of at most ${PARTS_MAX}`
    throw invalid('invalid-option', { path, value: sum, allowed })
  }
  return reduced.toSorted((one, other) => (one.name < other.name ? -1 : 1))
}

/** A part of a limit, rounded down; it may be nothing. The rate of a bucket is not rounded. */
export function limitPart(limit: Limit, parts: number, whole: number): Limit {
  const part = Math.floor((limit.limit * parts) / whole)
  if (limit.algorithm !== 'tokenBucket') return { ...limit, limit: part }
  const burst = Math.floor((limit.burst * parts) / whole)
  const { limit: rate, perMs } = limit
  return { ...limit, ...tokenBucketParams(burst === 0 ? 0 : rate * parts, perMs * whole, burst) }
}

/** A limit with every unit divided into `factor` parts. */
export function limitTimes(limit: Limit, factor: number): Limit {
  if (limit.algorithm !== 'tokenBucket') return { ...limit, limit: limit.limit * factor }
  const scaled = tokenBucketParams(limit.limit * factor, limit.perMs, limit.burst * factor)
  return { ...limit, ...scaled }
}

/** How long units that were used can matter, for waits between regions. */
export function lastsMs(limit: Limit): number {
  return lifetimeMs(limit)
}

export function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0)
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b)
}
