/** A limit in words, for messages and for the names of limits that were not given one. */

import type { Limit } from '../algorithms/limit.ts'

const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const

/** Such as `100 per 1m`. It holds every parameter that counters depend on, and nothing else. */
export function limitText(limit: Limit): string {
  const { split = 1 } = limit
  return `${countedText(limit)}${split > 1 ? ` split ${split}` : ''}`
}

/**
 * A name that is made of the parameters, such as `100-per-1m`: equal in every process and after
 * every start, and different for limits that differ.
 */
export function limitName(limit: Limit): string {
  return limitText(limit).replace(/[^A-Za-z0-9_.:/-]/g, '-')
}

function countedText(limit: Limit): string {
  switch (limit.algorithm) {
    case 'tokenBucket': {
      const { burst, perMs } = limit
      const most = burst === limit.limit ? '' : ` burst ${burst}`
      return `${limit.limit} per ${durationText(perMs)}${most}`
    }
    case 'slidingWindow':
    case 'slidingLog':
      return `${limit.limit} per ${durationText(limit.perMs)}`
    case 'fixedWindow': {
      const { per } = limit
      if (typeof per === 'number') return `${limit.limit} per ${durationText(per)}`
      return `${limit.limit} per ${per.unit}${per.timeZone === 'UTC' ? '' : ` ${per.timeZone}`}`
    }
    case 'concurrency':
      return `${limit.limit} at once for ${durationText(limit.ttlMs)}`
  }
}

/** In the largest unit that divides it. */
function durationText(durationMs: number): string {
  const [unit, unitMs] = units.find(([, ms]) => durationMs % ms === 0) ?? ['ms', 1]
  return `${durationMs / unitMs}${unit}`
}
