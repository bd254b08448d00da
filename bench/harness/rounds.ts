/** Contenders take turns: a machine that slows down for a while slows all of them down. */

import type { Run } from './part.ts'

export interface Contender<Figure> {
  readonly name: string
  /** One round. */
  run(): Promise<Figure>
  /** Replaces the first round, which is not counted. */
  warmUp?(): Promise<unknown>
}

/**
 * The rounds of each contender, by name. The first round warms up and is not counted. The order
 * rotates by one each round, so that no contender always runs after the same one.
 */
export async function takeTurns<Figure>(
  run: Pick<Run, 'progress'>,
  what: string,
  contenders: readonly Contender<Figure>[],
  rounds: number,
): Promise<Map<string, Figure[]>> {
  const figures = new Map(contenders.map(({ name }): [string, Figure[]] => [name, []]))
  for (let round = 0; round <= rounds; round++) {
    for (const [at] of contenders.entries()) {
      const contender = contenders[(at + round) % contenders.length] as Contender<Figure>
      const counted = round === 0 ? 'warm-up' : `round ${round} of ${rounds}`
      run.progress(`${what}: ${contender.name}, ${counted}`)
      if (round === 0) await (contender.warmUp?.() ?? contender.run())
      else figures.get(contender.name)?.push(await contender.run())
    }
  }
  return figures
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}
