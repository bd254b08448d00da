/** Figures as people read them. */

import type { Outcome } from './outcome.ts'

export function figure(value: number | string | undefined, digits?: number): string {
  if (value === undefined || value === null) return ''
  if (typeof value === 'string') return value
  if (!Number.isFinite(value)) return '∞'
  const fraction = digits ?? (Number.isInteger(value) ? 0 : fractionDigits(value))
  return value.toLocaleString('en-US', {
    minimumFractionDigits: fraction,
    maximumFractionDigits: fraction,
  })
}

/** A measured figure: three digits, as the others differ from run to run. */
export function rough(value: number): string {
  return figure(Math.abs(value) >= 1_000 ? Number(value.toPrecision(3)) : value)
}

/** A mark of an axis, without digits that say nothing. */
export function tickText(value: number): string {
  return value.toLocaleString('en-US', { maximumSignificantDigits: 3 })
}

export function ratioText(ratio: number): string {
  return `${ratioFigure(ratio)}×`
}

export function spreadText({ ratioMin, ratioMax }: Outcome): string {
  return `${ratioFigure(ratioMin)} to ${ratioFigure(ratioMax)}`
}

/** What a cell of a table says of an aim; the page gathers what was missed. */
const MET = 'met'
export const MISSED = 'missed'

export function verdictOf(isMet: boolean): string {
  return isMet ? MET : MISSED
}

/** `4 met`, `4 missed`, or nothing. */
export function aimText(aim: number | undefined, { isAimMet }: Outcome): string {
  return aim === undefined ? '' : `${aim} ${verdictOf(isAimMet ?? false)}`
}

/** Ratios have two digits after the point, because 0.98 and 1.02 are not the same. */
function ratioFigure(ratio: number): string {
  if (!Number.isFinite(ratio)) return '∞'
  return figure(ratio, ratio < 10 ? 2 : ratio < 100 ? 1 : 0)
}

function fractionDigits(value: number): number {
  const size = Math.abs(value)
  if (size >= 100) return 0
  if (size >= 10) return 1
  if (size >= 1) return 2
  return size >= 0.1 ? 3 : 4
}
