/** The place of a process: this host, a network namespace, another wall clock, or both. */

import { LOOPBACK } from './ports.ts'

export interface Place {
  /** The address that servers of this place bind, and that others connect to. */
  readonly host: string
  /**
   * The prefix of commands, such as `ip netns exec name`. Every part executes the rest in its own
   * process, so the process id is the command's.
   */
  readonly prefix: readonly string[]
}

export const here: Place = { host: LOOPBACK, prefix: [] }

/** The place with this index; places are used in turn. */
export function placeOf(places: readonly Place[] = [here], index: number): Place {
  return places[index % places.length] ?? here
}
