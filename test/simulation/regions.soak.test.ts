/**
 * Many seeds of the simulations, in two processes side by side: without the test runner, which
 * slows calls between modules down, a seed takes 2 to 4 ms.
 */

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { sizes } from '../support/suite.ts'

const SEEDS = sizes.simulatedSeeds
const PROCESSES = 2

const program = join(import.meta.dirname, 'run-seeds.ts')

describe('regions in simulations', () => {
  test.for(['shared', 'partition', 'home', 'escrow'])(
    `%s: no invariant breaks in ${SEEDS} runs`,
    async (simulation) => {
      const seeds = SEEDS / PROCESSES
      const failures = await Promise.all(
        Array.from({ length: PROCESSES }, async (_, at) => {
          const args = [program, simulation, String(1 + at * seeds), String(seeds)]
          return (await promisify(execFile)(process.execPath, args)).stdout
        }),
      )
      expect(failures.join('')).toBe('')
    },
  )
})
