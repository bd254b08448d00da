/** Contenders take turns: a machine that slows down for a while slows all of them down. */

import type { Run } from './part.ts'

export interface Contender<Figure> {
  readonly name: string
  /** One round. */
  run(): Promise<Figure>
}

/**
 * The rounds of each, by name. The first round warms up and is not counted; the order turns by one
 * from round to round, so that nobody always runs after the same neighbour.
 */
export async function takeTurns<Figure>(
  run: Run,
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
      const figure = await contender.run()
      if (round > 0) figures.get(contender.name)?.push(figure)
    }
  }
  return figures
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}
