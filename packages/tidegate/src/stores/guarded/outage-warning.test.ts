import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { outageWarning } from './outage-warning.ts'

const warnings: string[] = []

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] })
  warnings.length = 0
  vi.spyOn(process, 'emitWarning').mockImplementation((text) => void warnings.push(String(text)))
})

afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

describe('the warning of an outage', () => {
  it('comes at once, and then at most once a minute while it lasts', () => {
    const warn = outageWarning()
    for (let second = 0; second < 121; second++) {
      warn('timeout', { roundTripMs: 0.3, deadlineMs: 15 })
      vi.advanceTimersByTime(1_000)
    }
    expect(warnings).toHaveLength(3)
  })

  it('names the round trip, the deadline and what to set if Redis is too far away', () => {
    outageWarning()('timeout', { roundTripMs: 18.2, deadlineMs: 15 })
    vi.advanceTimersByTime(100)
    expect(warnings).toEqual([
      'rate limits are being decided without the store (timeout): the round trip takes 18 ms, ' +
        'the deadline is 15 ms. Set deadlineMs to 55 or more, or leave it out to follow the ' +
        'round trip.',
    ])
  })

  it('does not advise to leave the deadline out if none that is chosen is long enough', () => {
    outageWarning()('timeout', { roundTripMs: 150, deadlineMs: 100 })
    vi.advanceTimersByTime(100)
    expect(warnings[0]).toContain(
      'the round trip takes 150 ms, the deadline is 100 ms. Set deadlineMs to 450 or more; ' +
        'without it, the deadline is at most 100 ms.',
    )
  })

  it.each([
    ['unreachable', 'each limit decides as its onStoreError declares'],
    ['overloaded', 'onOverload decides'],
  ] as const)('says what decides: %s', (reason, text) => {
    outageWarning()(reason, { roundTripMs: undefined, deadlineMs: 15 })
    vi.advanceTimersByTime(100)
    expect(warnings[0]).toContain('no round trip was measured, the deadline is 15 ms')
    expect(warnings[0]).toContain(text)
  })
})
