/**
 * Other numbers for single keys. The engine asks this port for every charge, so that a source of
 * overrides may change its answers at any time.
 */

import type { Limit } from 'tidegate'

export interface Overrides {
  /** The limit that holds for a key instead; undefined if the key has no override. */
  overrideFor(limitName: string, key: string): Limit | undefined
}

export const noOverrides: Overrides = { overrideFor: () => undefined }

/** Asks `first`, then `second`. */
export function bothOverrides(first: Overrides, second: Overrides): Overrides {
  if (first === noOverrides) return second
  if (second === noOverrides) return first
  return {
    overrideFor: (name, key) => first.overrideFor(name, key) ?? second.overrideFor(name, key),
  }
}
