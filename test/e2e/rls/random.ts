/** Deterministic random numbers from a seed. */

export interface Random {
  /** An integer from 0 to below `most`. */
  below(most: number): number
  bytes(count: number): Buffer
  pick<T>(from: readonly T[]): T
}

/** Mulberry32, which is small and good enough to vary inputs. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0
  const below = (most: number) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * most)
  }
  return {
    below,
    bytes: (count) => Buffer.from(Array.from({ length: count }, () => below(256))),
    pick: (from) => from[below(from.length)] as (typeof from)[number],
  }
}
