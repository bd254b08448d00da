/** One seed for a run, and a random source of its own for each part, so that parts stay apart. */

import { type Random, seededRandom } from '../e2e/rls/random.ts'

export function forkedRandom(seed: number, part: string): Random {
  let hash = seed >>> 0
  for (const character of part) hash = Math.imul(hash ^ character.charCodeAt(0), 0x01000193) >>> 0
  const random = seededRandom(hash ^ 0x9e3779b9)
  random.below(1)
  return random
}

/** True in `part` of all calls. */
export function chance(random: Random, part: number): boolean {
  return random.below(1_000_000) < part * 1_000_000
}

export function between(random: Random, from: number, to: number): number {
  return from + random.below(to - from + 1)
}
