import type { Meter } from '../observer.ts'

/**
 * The longest deadline that a store chooses by its round trip. A request should not wait for
 * longer: enough for another region, not for another continent.
 */
export const DEADLINE_MS_MAX = 100

/** Bounds on the calls of one caller. */
export interface CallBounds {
  /**
   * How long the server may stay silent after a command was written to it. The time that a call
   * waits to be written, and the time in which this process was busy, does not count. Undefined
   * lets the store choose by its round trip.
   */
  readonly deadlineMs: number | undefined
  /** How long a call may wait to be written. */
  readonly queueMs: number
  /** How many calls may wait to be written. */
  readonly queueMax: number
  /** How long calls wait for the first answer of a store that has never answered. */
  readonly connectMs: number
  /** Receives the commands of these calls. */
  readonly meter?: Pick<Meter, 'command' | 'queued'> | undefined
}
