/** Ratios and aims as texts of tables. */

import { figure } from '../../tools/charts/number-text.ts'
import type { Outcome } from './outcome.ts'

export function ratioText(ratio: number): string {
  return `${ratioFigure(ratio)}×`
}

export function spreadText({ ratioMin, ratioMax }: Outcome): string {
  return `${ratioFigure(ratioMin)} to ${ratioFigure(ratioMax)}`
}

/** Cells of a table for an aim; the page collects the missed ones. */
const MET = 'met'
export const MISSED = 'missed'

export function verdictOf(isMet: boolean): string {
  return isMet ? MET : MISSED
}

/** Returns `4 met`, `4 missed`, or an empty text if there is no aim. */
export function aimText(aim: number | undefined, { isAimMet }: Outcome): string {
  return aim === undefined ? '' : `${aim} ${verdictOf(isAimMet ?? false)}`
}

/** Ratios have two digits after the point, to distinguish 0.98 from 1.02. */
function ratioFigure(ratio: number): string {
  if (!Number.isFinite(ratio)) return '∞'
  return figure(ratio, ratio < 10 ? 2 : ratio < 100 ? 1 : 0)
}
