/** The result of a comparison: the ratio of the medians, and the spread of single rounds. */

import type { Comparison } from './part.ts'
import { median } from './rounds.ts'

export interface Outcome {
  /** Medians over the rounds. */
  readonly ours: number
  readonly peer: number
  /** How many times better ours is; above 1 is good in every unit. */
  readonly ratio: number
  /** The least and the greatest ratio of one round. The ratio lies between them. */
  readonly ratioMin: number
  readonly ratioMax: number
  readonly isSlower: boolean
  /** Undefined if the comparison has no aim. */
  readonly isAimMet: boolean | undefined
}

export function outcomeOf({ rounds, isLessBetter = false, aim }: Comparison): Outcome {
  const times = (ours: number, peer: number) => (isLessBetter ? peer / ours : ours / peer)
  const ours = median(rounds.map((round) => round.ours))
  const peer = median(rounds.map((round) => round.peer))
  const ratios = rounds.map((round) => times(round.ours, round.peer))
  const ratio = times(ours, peer)
  return {
    ours,
    peer,
    ratio,
    ratioMin: Math.min(...ratios),
    ratioMax: Math.max(...ratios),
    // Compared with the digits that are shown: 0.999 counts as equal.
    isSlower: Math.round(ratio * 100) < 100,
    isAimMet: aim === undefined ? undefined : ratio >= aim,
  }
}

/** Groups comparisons of the same contenders in the same unit, which share a table. */
export function alike(comparisons: readonly Comparison[]): Comparison[][] {
  const groups = new Map<string, Comparison[]>()
  for (const comparison of comparisons) {
    const { ours, peer, unit } = comparison
    const key = JSON.stringify([ours, peer, unit])
    groups.set(key, [...(groups.get(key) ?? []), comparison])
  }
  return [...groups.values()]
}
