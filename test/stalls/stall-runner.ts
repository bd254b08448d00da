/**
 * Runs a test once more that failed while the machine stood still. Most of ours are about time: a
 * gateway that gives up after half a second is right to do so when a machine pauses for two, and a
 * test cannot tell. A failure without such a pause counts at once.
 */

import { type RunnerTask, TestRunner } from 'vitest'
import { longestStallMs } from './stalls-file.ts'

/** The watch needs a moment to note what has just ended. */
const NOTED_MS = 300

export default class StallRunner extends TestRunner {
  override async onBeforeRunTask(test: RunnerTask): Promise<void> {
    if (test.type === 'test') {
      const sinceMs = Date.now()
      test.retry ??= { count: 1, condition: () => stoodStill(test.name, sinceMs) }
    }
    await super.onBeforeRunTask(test)
  }
}

function stoodStill(name: string, sinceMs: number): boolean {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, NOTED_MS)
  const stallMs = longestStallMs(sinceMs)
  if (stallMs === 0) return false
  console.warn(`the machine stood still for ${stallMs} ms; once more: ${name}`)
  return true
}
