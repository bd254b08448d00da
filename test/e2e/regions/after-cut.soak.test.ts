/**
 * How soon regions share limits again after links were cut. Times are printed, and asserted only so
 * far that a process that connects too seldom is noticed on a busy machine.
 */

import { expect, onTestFinished, test } from 'vitest'
import { networkProblem } from '../../support/faults/network.ts'
import { sharingModes, startCutWorld } from '../../support/regions/after-cut.ts'

/** Longer than 10 s, after which a region is silent, and than leases. */
const CUTS_SECONDS = [12, 12, 20]

/** The goal is a second for `shared`, and two for `escrow`. */
const CONVERGED_MS_MAX = 10_000

const problem = networkProblem()

test.for([
  { isNetwork: false, kind: 'whose links hold bytes' },
  { isNetwork: true, kind: 'whose links drop packets' },
])('three regions $kind share limits again after a cut', async ({ isNetwork, kind }, { skip }) => {
  skip(isNetwork && problem !== undefined, problem)
  const world = await startCutWorld({ isNetwork })
  onTestFinished(() => world.stop())
  for (const seconds of CUTS_SECONDS) {
    const took = await world.cut(seconds)
    const times = sharingModes.map((mode) => `${mode} ${took[mode]} ms`).join(', ')
    console.info(`regions ${kind}: shared again after a cut of ${seconds} s: ${times}`)
    expect(Math.max(...Object.values(took))).toBeLessThan(CONVERGED_MS_MAX)
  }
})
