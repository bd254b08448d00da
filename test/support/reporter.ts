/**
 * Counts tests for `run.sh`, which adds them to its own checks and prints the sum as its last line.
 *
 * A failure outside of a test (a file that does not load, a hook that throws, an unhandled
 * rejection) counts as one failed test, so that a run cannot fail with a count of zero.
 */

import { writeFileSync } from 'node:fs'
import type { Reporter, TestModule } from 'vitest/node'

type RunErrors = Parameters<NonNullable<Reporter['onTestRunEnd']>>[1]

/** Writes `passed failed skipped` to the file that `TIDEGATE_TEST_COUNTS` names, if it is set. */
export class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: RunErrors): void {
    const file = process.env.TIDEGATE_TEST_COUNTS
    if (file === undefined) return
    const counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 }
    for (const module of modules) {
      for (const part of [module, ...module.children.allSuites()]) {
        if (part.errors().length > 0) counts.failed += 1
      }
      for (const test of module.children.allTests()) {
        const { state } = test.result()
        counts[state === 'pending' ? 'failed' : state] += 1
      }
    }
    writeFileSync(file, `${counts.passed} ${counts.failed} ${counts.skipped}\n`)
  }
}
