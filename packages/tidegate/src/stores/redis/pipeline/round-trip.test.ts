import { describe, expect, it } from 'vitest'
import { RoundTrip } from './round-trip.ts'

/** One sample every 100 ms from then on; returns the time after the last one. */
function learn(roundTrip: RoundTrip, startMs: number, samples: readonly number[]): number {
  for (const [at, sample] of samples.entries()) roundTrip.learn(sample, startMs + at * 100)
  return startMs + samples.length * 100
}

describe('the deadline that follows the round trip', () => {
  it.each([
    [[], 15],
    [[0.3], 15],
    [[4.9], 15],
    [[6], 18],
    [[18, 25, 40], 54],
    [[40], 100],
    [[80], 100],
    [[0.3, 30, 90], 15],
    [[150], 100],
    [[150, 0.3], 15],
  ])('after %j is %i ms', (samples, expected) => {
    const roundTrip = new RoundTrip()
    learn(roundTrip, 0, samples)
    expect(roundTrip.deadlineMs).toBe(expected)
  })

  it('follows a server that is farther away than before within two seconds', () => {
    const roundTrip = new RoundTrip()
    const nowMs = learn(
      roundTrip,
      0,
      Array.from({ length: 10 }, () => 0.3),
    )
    learn(
      roundTrip,
      nowMs,
      Array.from({ length: 21 }, () => 18),
    )
    expect(roundTrip.deadlineMs).toBe(54)
  })

  it('follows one that is nearer at once', () => {
    const roundTrip = new RoundTrip()
    const nowMs = learn(roundTrip, 0, [30, 30])
    learn(roundTrip, nowMs, [0.5])
    expect(roundTrip.deadlineMs).toBe(15)
  })

  it('does not follow a server that takes longer than the longest deadline', () => {
    const roundTrip = new RoundTrip()
    const nowMs = learn(roundTrip, 0, [0.3])
    learn(
      roundTrip,
      nowMs,
      Array.from({ length: 100 }, () => 200),
    )
    expect(roundTrip.deadlineMs).toBe(15)
    expect(roundTrip.ms).toBe(0.3)
  })

  it('is reported if every reply takes longer than the longest deadline', () => {
    const roundTrip = new RoundTrip()
    const nowMs = learn(roundTrip, 0, [180, 150, 160])
    expect(roundTrip.ms).toBe(150)
    learn(roundTrip, nowMs, [0.5])
    expect(roundTrip.ms).toBe(0.5)
  })
})
