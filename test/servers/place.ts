/** Where a process runs: just here, in a network namespace, with another wall clock, or both. */

import { LOOPBACK } from './ports.ts'

export interface Place {
  /** The address that servers bind here, and that others reach them by. */
  readonly host: string
  /**
   * What a command is written behind, such as `ip netns exec name`. Every part replaces itself by
   * what comes after it, so the process id is the command's own.
   */
  readonly prefix: readonly string[]
}

export const here: Place = { host: LOOPBACK, prefix: [] }

/** The place of one of several, which take turns. */
export function placeOf(places: readonly Place[] = [here], index: number): Place {
  return places[index % places.length] ?? here
}
