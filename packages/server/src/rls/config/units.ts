/** Units of time as the protocol numbers them, and the windows that they stand for. */

import type { Limit } from 'tidegate'

export interface Unit {
  readonly name: string
  readonly code: number
  readonly windowMs: number
}

const SECOND_MS = 1_000
const DAY_MS = 86_400_000

/** A month has 30 days and a year 365, and all windows are counted from 1970, a Thursday. */
export const units: readonly Unit[] = [
  { name: 'SECOND', code: 1, windowMs: SECOND_MS },
  { name: 'MINUTE', code: 2, windowMs: 60 * SECOND_MS },
  { name: 'HOUR', code: 3, windowMs: 3_600 * SECOND_MS },
  { name: 'DAY', code: 4, windowMs: DAY_MS },
  { name: 'MONTH', code: 5, windowMs: 30 * DAY_MS },
  { name: 'YEAR', code: 6, windowMs: 365 * DAY_MS },
  { name: 'WEEK', code: 7, windowMs: 7 * DAY_MS },
]

/** For windows that are not one of the units. */
export const unknownUnit: Unit = { name: 'UNKNOWN', code: 0, windowMs: 0 }

export function unitNamed(name: string): Unit | undefined {
  const upper = name.toUpperCase()
  return units.find((unit) => unit.name === upper)
}

export function unitOfCode(code: number): Unit | undefined {
  return units.find((unit) => unit.code === code)
}

export function unitOfWindow(windowMs: number): Unit | undefined {
  return units.find((unit) => unit.windowMs === windowMs)
}

export function unitOfLimit(limit: Limit): Unit {
  if (limit.algorithm === 'concurrency') return unknownUnit
  if (limit.algorithm !== 'fixedWindow') return unitOfWindow(limit.perMs) ?? unknownUnit
  const { per } = limit
  return (typeof per === 'number' ? unitOfWindow(per) : unitNamed(per.unit)) ?? unknownUnit
}

/** The length of an aligned window; undefined for other algorithms and calendars. */
export function windowMsOf(limit: Limit): number | undefined {
  const isAligned = limit.algorithm === 'fixedWindow' && typeof limit.per === 'number'
  return isAligned ? (limit.per as number) : undefined
}
