/**
 * The parts of a limit that regions have: whole numbers whose sum is never more than the limit.
 */

/** The reserve of a limit that declares none, in percent. */
export const RESERVE_PERCENT_DEFAULT = 10

/** With fewer units for each region, blocks are too small to be worth their messages. */
export const ESCROW_UNITS_PER_REGION_MIN = 16

/** Units of a region that has `share` of all shares. */
export function shareUnits(units: number, share: number, shares: number): number {
  return Math.floor((units * share) / shares)
}

/** Units that each region keeps for itself. */
export function reserveUnits(units: number, percent: number, regions: number): number {
  return Math.floor((units * percent) / 100 / regions)
}

/** Units that the home of a key gives to all regions. */
export function homeUnits(units: number, percent: number, regions: number): number {
  return units - regions * reserveUnits(units, percent, regions)
}
