/** Durations as people write them. */

import { invalid } from '../errors.ts'

const unitsMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** `'250ms'`, `'1s'`, `'5m'`, `'1h'`, `'1d'`. A number alone could be of either unit. */
export type Duration = `${number}${keyof typeof unitsMs}`

/** A leap year: nothing that is rate limited is counted over longer. */
export const DURATION_MS_MAX = 366 * unitsMs.d

const allowed = `a whole number with a unit, '250ms', '1s', '5m', '1h', '1d', from 1 ms to 366 days`

export function parseDuration(value: unknown, path: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) {
    const withUnit = `a duration with its unit, such as "${value}s" or "${value}ms"`
    throw invalid('invalid-option', { path, value, allowed: withUnit })
  }
  const durationMs = typeof value === 'string' ? fromText(value) : Number.NaN
  if (durationMs >= 1 && durationMs <= DURATION_MS_MAX) return durationMs
  throw invalid('invalid-option', { path, value, allowed })
}

function fromText(text: string): number {
  const match = /^(\d{1,12})(ms|s|m|h|d)$/.exec(text)
  if (match === null) return Number.NaN
  return Number(match[1]) * unitsMs[match[2] as keyof typeof unitsMs]
}
