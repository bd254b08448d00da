/** The names of the counters that a region keeps for a shared limit. */

/** No name of a limit has this character. */
const MARK = '~'

const RESERVE = `${MARK}reserve`
const CUT_OFF = `${MARK}cut-off`

/** The counter of units that a region has for itself. */
export function reserveName(limit: string): string {
  return limit + RESERVE
}

/** The counter of the region's share while the home of a key cannot be reached. */
export function cutOffName(limit: string): string {
  return limit + CUT_OFF
}

export function isReserveName(name: string): boolean {
  return name.endsWith(RESERVE)
}

export function limitNameOf(name: string): string {
  const at = name.indexOf(MARK)
  return at < 0 ? name : name.slice(0, at)
}
