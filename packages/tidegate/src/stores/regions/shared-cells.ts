/**
 * Cells of the mode `shared`: the windows of a limit by the clock of the region's store, or one
 * cell for a bucket. Counts of different cells are never added up.
 */

import { windowAt } from '../../algorithms/fixed-window.ts'
import type { Limit } from '../../algorithms/limit.ts'
import { invalid } from '../../errors.ts'

export interface Cells {
  readonly isBucket: boolean
  /** The length of a window, for bounds; infinite for a bucket, which has no boundary. */
  readonly perMs: number
  /** The current cell. */
  at(storeMs: number): number
  /** True if counts of the cell are merged: it is current, or next, or matters still. */
  isOpen(cell: number, storeMs: number): boolean
  /** True if the cell may matter later; a clock may jump back by a window. */
  isKept(cell: number, storeMs: number): boolean
  /** True if the region's counter is that of the cell, and stays so for `boundaryMs`. */
  mayAdjust(cell: number, units: number, storeMs: number, boundaryMs: number): boolean
  /** The end of a cell by the clock of the store; infinite for a bucket. */
  endOf(cell: number): number
}

export function cellsOf(limit: Limit): Cells {
  switch (limit.algorithm) {
    case 'tokenBucket':
      return bucketCells
    case 'fixedWindow':
      return windowCells(limit.per, 0)
    case 'slidingWindow':
      return windowCells(limit.perMs, 1)
    default:
      throw invalid('invalid-option', {
        path: 'regions.mode',
        value: `shared with ${limit.algorithm}`,
        allowed: 'shared with tokenBucket, fixedWindow or slidingWindow',
      })
  }
}

const bucketCells: Cells = {
  isBucket: true,
  perMs: Infinity,
  at: () => 0,
  isOpen: (cell) => cell === 0,
  isKept: () => true,
  mayAdjust: () => true,
  endOf: () => Infinity,
}

function windowCells(per: Parameters<typeof windowAt>[1]['per'], windowsBefore: number): Cells {
  const at = (storeMs: number) => windowAt(storeMs, { per })
  const previousOf = (startMs: number) => at(startMs - 1).startMs
  const isOpen = (cell: number, storeMs: number) => {
    const { startMs, endMs } = at(storeMs)
    if (cell === startMs || cell === endMs) return true
    return windowsBefore === 1 && cell === previousOf(startMs)
  }
  return {
    isBucket: false,
    perMs: typeof per === 'number' ? per : 86_400_000,
    at: (storeMs) => at(storeMs).startMs,
    isOpen,
    isKept: (cell, storeMs) => {
      const { startMs, endMs } = at(storeMs)
      return cell >= previousOf(startMs) && cell <= endMs
    },
    mayAdjust: (cell, units, storeMs, boundaryMs) => {
      const { startMs, endMs } = at(storeMs)
      // Late units of the window before are charged in this one, and none are given back.
      if (cell < startMs) return windowsBefore === 1 && units > 0
      return cell === startMs && (units > 0 || endMs - storeMs > boundaryMs)
    },
    endOf: (cell) => at(cell).endMs,
  }
}
