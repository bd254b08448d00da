/**
 * Regions in virtual time: links that lose, delay, repeat and reorder, cuts, clocks that step and
 * drift, lost stores, two exchangers at once, regions that are added and removed. A failure prints
 * its seed and the shortest list of incidents that breaks the invariant.
 */

import { describe, expect, test } from 'vitest'
import { sizes } from '../support/suite.ts'
import { HomeCounts } from './home/home-counts.ts'
import { escrowSimulation, homeSimulation } from './home/home-simulation.ts'
import { HomeWorld } from './home/home-world.ts'
import { partitionSimulation } from './partition-simulation.ts'
import { sharedSimulation } from './shared-simulation.ts'
import { firstFailure, shrink } from './simulation.ts'

const { simulatedSeeds } = sizes

describe('regions in simulations', () => {
  test(`shared: no invariant breaks in ${simulatedSeeds} runs`, async () => {
    expect(await firstFailure(sharedSimulation, 1, simulatedSeeds)).toBeUndefined()
  })

  test(`partition: no invariant breaks in ${simulatedSeeds} runs`, async () => {
    expect(await firstFailure(partitionSimulation, 1, simulatedSeeds)).toBeUndefined()
  })

  test(`home: never one unit too many in ${simulatedSeeds} runs`, async () => {
    expect(await firstFailure(homeSimulation, 1, simulatedSeeds)).toBeUndefined()
  })

  test(`escrow: never one unit too many in ${simulatedSeeds} runs`, async () => {
    expect(await firstFailure(escrowSimulation, 1, simulatedSeeds)).toBeUndefined()
  })

  test('a run is the same again', async () => {
    const plan = sharedSimulation.plan(7)
    expect(sharedSimulation.plan(7)).toEqual(plan)
    expect(sharedSimulation.run(plan)).toEqual(sharedSimulation.run(plan))
    expect(await bytesOf(7)).toEqual(await bytesOf(7))
  })

  test('a failure is reported with its seed and the shortest list of incidents', async () => {
    const incidents = Array.from({ length: 20 }, (_, atMs) => ({
      ...{ kind: 'step' as const, atMs, region: 0, ms: atMs },
    }))
    const broken = {
      name: 'broken',
      plan: (seed: number) => ({ seed, text: 'twenty steps', incidents }),
      run: (plan: { readonly incidents: readonly { readonly atMs: number }[] }) =>
        [3, 17].every((atMs) => plan.incidents.some((one) => one.atMs === atMs))
          ? { atMs: 17, text: 'both are there' }
          : undefined,
    }
    const shortest = await shrink(broken, broken.plan(1))
    expect(shortest.incidents.map(({ atMs }) => atMs)).toEqual([3, 17])
    expect(await firstFailure(broken, 5, 1)).toBe(
      [
        'broken, seed 5: twenty steps',
        '{"kind":"step","atMs":3,"region":0,"ms":3}',
        '{"kind":"step","atMs":17,"region":0,"ms":17}',
        'at 17 ms: both are there',
      ].join('\n'),
    )
  })
})

/** Bytes that the regions of a run have sent, which differ if anything does. */
async function bytesOf(seed: number): Promise<number> {
  const { setup, incidents } = escrowSimulation.plan(seed)
  const world = new HomeWorld(setup, new HomeCounts(setup))
  world.play(incidents)
  await world.runUntil(5_000)
  return world.network.bytes
}
