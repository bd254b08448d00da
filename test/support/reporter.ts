/**
 * Counts tests for `run.sh`, which adds them to its own checks and prints the sum as its last line,
 * below a line for each failure.
 *
 * A failure outside of a test (a file that does not load, a hook that throws, an unhandled
 * rejection) counts as one failed test, so that a run cannot fail with a count of zero.
 */

import { writeFileSync } from 'node:fs'
import type { Reporter, TestModule } from 'vitest/node'

type RunErrors = Parameters<NonNullable<Reporter['onTestRunEnd']>>[1]

/** The details of a failure can be long. Its line shows where to look. */
const MESSAGE_CHARS_MAX = 160

/**
 * Writes `passed failed skipped`, and below it the failures, to the file that
 * `TIDEGATE_TEST_COUNTS` names, if it is set. Prints the failures, too.
 */
export class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: RunErrors): void {
    const file = process.env.TIDEGATE_TEST_COUNTS
    if (file === undefined) return
    const counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 }
    const failures = unhandledErrors.map(({ message }) => line('outside of a test', message))
    for (const module of modules) {
      const { relativeModuleId: path } = module
      for (const part of [module, ...module.children.allSuites()]) {
        const [error] = part.errors()
        if (error === undefined) continue
        counts.failed += 1
        failures.push(line(path, error.message))
      }
      for (const test of module.children.allTests()) {
        const { state, errors } = test.result()
        counts[state === 'pending' ? 'failed' : state] += 1
        if (state === 'passed' || state === 'skipped') continue
        failures.push(line(`${path} > ${test.fullName}`, errors?.[0]?.message ?? 'has not ended'))
      }
    }
    for (const failure of failures) console.info(failure)
    const { passed, failed, skipped } = counts
    writeFileSync(file, [`${passed} ${failed} ${skipped}`, ...failures, ''].join('\n'))
  }
}

function line(place: string, message: string): string {
  return `FAILED ${place}: ${message.replaceAll(/\s+/g, ' ').slice(0, MESSAGE_CHARS_MAX)}`
}
