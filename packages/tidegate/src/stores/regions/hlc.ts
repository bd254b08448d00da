/**
 * Hybrid logical clocks: stamps that are ordered like cause and effect, and close to the wall clock
 * (Kulkarni et al., 2014). They order incarnations, epochs and masks. They do not align windows,
 * and durations are measured on a steady clock instead.
 *
 * A stamp far ahead of the own clock is refused: it would move the clocks of all regions for ever.
 */

export interface Stamp {
  /** Wall clock in whole milliseconds, below 2^48. */
  readonly ms: number
  /** Orders the stamps of a millisecond, below 2^16. */
  readonly count: number
}

/** More than the clocks of two synchronised regions differ by, less than any window is long. */
export const SKEW_MS_MAX = 1_000

const COUNT_MAX = 2 ** 16 - 1

export const STAMP_ZERO: Stamp = { ms: 0, count: 0 }

export function compareStamps(one: Stamp, other: Stamp): number {
  return one.ms === other.ms ? one.count - other.count : one.ms - other.ms
}

/** The stamp of an event here, later than `last` and not before the wall clock. */
export function nextStamp(last: Stamp, wallMs: number): Stamp {
  if (wallMs > last.ms) return { ms: wallMs, count: 0 }
  if (last.count < COUNT_MAX) return { ms: last.ms, count: last.count + 1 }
  return { ms: last.ms + 1, count: 0 }
}

export interface ReceivedStamp {
  readonly stamp: Stamp
  /** False if the remote stamp was too far ahead of this clock, and was ignored. */
  readonly isMerged: boolean
}

/** The stamp of the receipt of a message, later than `last` and, if it is merged, than `remote`. */
export function receiveStamp(
  last: Stamp,
  remote: Stamp,
  wallMs: number,
  skewMsMax = SKEW_MS_MAX,
): ReceivedStamp {
  if (remote.ms - wallMs > skewMsMax) {
    return { stamp: nextStamp(last, wallMs), isMerged: false }
  }
  const later = compareStamps(remote, last) > 0 ? remote : last
  return { stamp: nextStamp(later, wallMs), isMerged: true }
}

/** 16 hexadecimal digits, in the order of the stamps. */
export function stampText({ ms, count }: Stamp): string {
  return ms.toString(16).padStart(12, '0') + count.toString(16).padStart(4, '0')
}

export function parseStamp(text: string): Stamp {
  return { ms: Number.parseInt(text.slice(0, 12), 16), count: Number.parseInt(text.slice(12), 16) }
}
