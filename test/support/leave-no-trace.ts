/**
 * For test files that share a process: fails a file that leaves another environment, other globals,
 * listeners of the process or a fake clock behind, which could change the tests of the next file.
 */

import { afterAll, beforeAll, expect, vi } from 'vitest'

const state = () => ({
  environment: { ...process.env },
  globals: Object.getOwnPropertyNames(globalThis).sort(),
  listeners: process.eventNames().map((name) => [name, process.listenerCount(name)]),
  folder: process.cwd(),
  isClockFake: vi.isFakeTimers(),
})

let before: ReturnType<typeof state>

beforeAll(() => {
  before = state()
})

afterAll(() => {
  expect(state()).toEqual(before)
})
