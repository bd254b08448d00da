import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { HeldConnections } from './held-connections.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

function holding(times: readonly number[]): { readonly released: number[] } {
  const held = new HeldConnections()
  const released: number[] = []
  for (const [at, holdMs] of times.entries()) held.hold(() => released.push(at), holdMs)
  return { released }
}

test('releases a connection when its time is over, not before', () => {
  const { released } = holding([200, 50])
  vi.advanceTimersByTime(49)
  expect(released).toEqual([])
  vi.advanceTimersByTime(31)
  expect(released).toEqual([1])
  vi.advanceTimersByTime(150)
  expect(released).toEqual([1, 0])
})

test('releases connections that are due together over several turns, in order', () => {
  const { released } = holding(Array.from({ length: 100 }, () => 50))
  const counts: number[] = []
  while (released.length < 100) {
    const before = released.length
    vi.advanceTimersToNextTimer()
    counts.push(released.length - before)
  }
  expect(Math.max(...counts)).toBe(8)
  expect(released).toEqual(Array.from({ length: 100 }, (_, at) => at))
})

test('has no timer when none is left', () => {
  const { released } = holding([50, 70, 90])
  vi.advanceTimersByTime(120)
  expect(released).toEqual([0, 1, 2])
  vi.advanceTimersByTime(100)
  expect(vi.getTimerCount()).toBe(0)
})
