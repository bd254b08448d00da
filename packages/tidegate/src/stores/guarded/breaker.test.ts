import { describe, expect, it } from 'vitest'
import { Breaker, type BreakerSettings } from './breaker.ts'

const defaults: BreakerSettings = {
  errorRate: 0.5,
  windowMs: 10_000,
  callsMin: 10,
  openFirstMs: 500,
  openMs: 60_000,
}

/** Later than zero, as a steady clock is. */
const START_MS = 1_000_000

interface Bench {
  readonly breaker: Breaker
  /** Every change, such as `closed > open 500`. */
  readonly changes: string[]
}

function bench(settings: Partial<BreakerSettings> = {}, random = () => 0): Bench {
  const changes: string[] = []
  const onChange = (from: string, to: string, openMs: number) =>
    changes.push(`${from} > ${to}${openMs > 0 ? ` ${openMs}` : ''}`)
  return { breaker: new Breaker({ ...defaults, ...settings }, onChange, random), changes }
}

/** Times are from the start; `count` calls that end so, `everyMs` apart. */
type Step = readonly [atMs: number, outcome: 'succeed' | 'fail', count: number, everyMs?: number]

function play({ breaker }: Bench, steps: readonly Step[]): void {
  for (const [atMs, outcome, count, everyMs = 0] of steps) {
    for (let at = 0; at < count; at++) breaker[outcome](START_MS + atMs + at * everyMs, false)
  }
}

function opened(atMs = 0, settings: Partial<BreakerSettings> = {}, random = () => 0): Bench {
  const on = bench(settings, random)
  play(on, [[atMs, 'fail', 10]])
  expect(on.breaker.state).toBe('open')
  return on
}

const histories: ReadonlyArray<readonly [string, 'open' | 'closed', readonly Step[]]> = [
  ['no calls', 'closed', []],
  ['9 failures of 9 calls', 'closed', [[0, 'fail', 9, 100]]],
  ['10 failures of 10 calls', 'open', [[0, 'fail', 10]]],
  [
    'half of the calls failed',
    'closed',
    [
      [0, 'succeed', 10],
      [1, 'fail', 10],
    ],
  ],
  [
    'more than half of the calls failed',
    'open',
    [
      [0, 'succeed', 10],
      [1, 'fail', 11],
    ],
  ],
  [
    '4 of 9 calls failed and one more',
    'closed',
    [
      [0, 'succeed', 5],
      [1, 'fail', 5],
    ],
  ],
  [
    'failures that have left the window',
    'closed',
    [
      [0, 'fail', 9],
      [10_000, 'fail', 1],
    ],
  ],
  [
    'failures that are just within the window',
    'open',
    [
      [0, 'fail', 9],
      [9_000, 'fail', 1],
    ],
  ],
  ['failures that left the window one by one', 'closed', [[0, 'fail', 30, 1_200]]],
  [
    'successes that have left the window',
    'open',
    [
      [0, 'succeed', 100],
      [10_000, 'succeed', 4],
      [10_001, 'fail', 6],
    ],
  ],
  [
    'a pause of many windows',
    'closed',
    [
      [0, 'fail', 9],
      [123_456_789, 'fail', 9],
    ],
  ],
  [
    '10 failures in a row over 10 ms after 10,000 successes',
    'open',
    [
      [0, 'succeed', 10_000],
      [1, 'fail', 9],
      [11, 'fail', 1],
    ],
  ],
  [
    '10 failures in a row over 9 ms after 10,000 successes',
    'closed',
    [
      [0, 'succeed', 10_000],
      [1, 'fail', 9],
      [10, 'fail', 1],
    ],
  ],
  [
    '128 failures in the same instant after 10,000 successes',
    'closed',
    [
      [0, 'succeed', 10_000],
      [1, 'fail', 128],
    ],
  ],
  [
    'a success between failures after 10,000 successes',
    'closed',
    [
      [0, 'succeed', 10_000],
      [1, 'fail', 9, 2],
      [20, 'succeed', 1],
      [21, 'fail', 9, 2],
    ],
  ],
  [
    'failures in the same instant, twice',
    'open',
    [
      [0, 'succeed', 10_000],
      [1, 'fail', 128],
      [16, 'fail', 1],
    ],
  ],
]

describe('a closed breaker', () => {
  it.each(histories)('after %s is %s', (_what, state, steps) => {
    const on = bench()
    play(on, steps)
    expect(on.breaker.state).toBe(state)
    expect(on.changes).toEqual(state === 'open' ? ['closed > open 500'] : [])
  })

  it('lets every call pass and has nothing to wait for', () => {
    const { breaker } = bench()
    for (let at = 0; at < 100; at++) expect(breaker.admits(START_MS)).toBe(true)
    expect(breaker.waitMs(START_MS)).toBe(0)
  })

  it('opens with the first failure at a rate of 0 and one call', () => {
    const on = bench({ errorRate: 0, callsMin: 1 })
    play(on, [
      [0, 'succeed', 100],
      [1, 'fail', 1],
    ])
    expect(on.breaker.state).toBe('open')
  })

  it('is not moved by calls that told nothing', () => {
    const on = bench()
    for (let at = 0; at < 100; at++) on.breaker.ignore(false)
    play(on, [[0, 'fail', 9]])
    expect(on.changes).toEqual([])
  })

  it('judges by a window of another length', () => {
    const on = bench({ windowMs: 100 })
    play(on, [[0, 'fail', 30, 8]])
    expect(on.changes).toEqual(['closed > open 500'])
    const slow = bench({ windowMs: 100 })
    play(slow, [[0, 'fail', 1_000, 15]])
    expect(slow.changes).toEqual([])
  })
})

describe('an open breaker', () => {
  it('lets nothing pass until its time is over', () => {
    const { breaker } = opened()
    expect(breaker.admits(START_MS)).toBe(false)
    expect(breaker.waitMs(START_MS)).toBe(500)
    expect(breaker.admits(START_MS + 499)).toBe(false)
    expect(breaker.waitMs(START_MS + 499)).toBe(1)
    expect(breaker.admits(START_MS + 500)).toBe(true)
    expect(breaker.waitMs(START_MS + 700)).toBe(0)
  })

  it('is not moved by calls that began before it opened', () => {
    const on = opened()
    play(on, [
      [1, 'succeed', 50],
      [2, 'fail', 50],
    ])
    on.breaker.ignore(false)
    expect(on.changes).toEqual(['closed > open 500'])
    expect(on.breaker.waitMs(START_MS)).toBe(500)
  })

  it('waits less by up to a fifth, so that processes do not probe together', () => {
    const { breaker, changes } = opened(0, {}, () => 1)
    expect(breaker.waitMs(START_MS)).toBe(400)
    expect(changes).toEqual(['closed > open 500'])
  })
})

describe('a half-open breaker', () => {
  function halfOpen(settings: Partial<BreakerSettings> = {}): Bench {
    const on = opened(0, settings)
    expect(on.breaker.admits(START_MS + 60_000)).toBe(true)
    expect(on.breaker.state).toBe('half-open')
    return on
  }

  it('lets a single call pass until that has ended', () => {
    const { breaker, changes } = halfOpen()
    for (let at = 0; at < 100; at++) expect(breaker.admits(START_MS + 60_000 + at)).toBe(false)
    expect(changes).toEqual(['closed > open 500', 'open > half-open'])
  })

  it('lets the next one pass if the probe told nothing, without a change', () => {
    const { breaker, changes } = halfOpen()
    breaker.ignore(true)
    expect(breaker.admits(START_MS + 60_001)).toBe(true)
    expect(breaker.admits(START_MS + 60_001)).toBe(false)
    expect(changes).toEqual(['closed > open 500', 'open > half-open'])
  })

  it('waits on for its probe, whatever becomes of calls from before', () => {
    const on = halfOpen()
    play(on, [
      [60_000, 'succeed', 5],
      [60_000, 'fail', 5],
    ])
    on.breaker.ignore(false)
    expect(on.breaker.state).toBe('half-open')
    expect(on.breaker.admits(START_MS + 60_001)).toBe(false)
  })

  it('closes when the probe succeeds, and has forgotten the failures', () => {
    const on = halfOpen()
    on.breaker.succeed(START_MS + 60_001, true)
    expect(on.changes.at(-1)).toBe('half-open > closed')
    play(on, [[60_002, 'fail', 9, 2]])
    expect(on.breaker.state).toBe('closed')
    play(on, [[60_030, 'fail', 1]])
    expect(on.breaker.state).toBe('open')
  })

  it('does not hold the failures of an outage against what comes after', () => {
    const on = opened()
    closeAt(on, 500)
    play(on, [
      [501, 'succeed', 5],
      [502, 'fail', 5],
    ])
    expect(on.breaker.state).toBe('closed')
  })

  it('opens again when the probe fails, for a twentieth of the outage so far', () => {
    const { breaker, changes } = halfOpen()
    breaker.fail(START_MS + 60_010, true)
    expect(changes.at(-1)).toBe('half-open > open 3001')
    expect(breaker.waitMs(START_MS + 60_010)).toBe(3_001)
    expect(breaker.admits(START_MS + 63_010)).toBe(false)
    expect(breaker.admits(START_MS + 63_011)).toBe(true)
  })
})

describe('the pauses of a breaker', () => {
  it('are half a second at first, and a twentieth of the outage later, up to a minute', () => {
    const on = opened()
    const told = [1_000, 10_000, 20_000, 100_000, 1_000_000, 1_200_000, 9_000_000].map((atMs) =>
      failProbe(on, atMs),
    )
    expect(told).toEqual([500, 500, 1_000, 5_000, 50_000, 60_000, 60_000])
  })

  it('are the fixed minute of the specification if the first is the longest', () => {
    const on = opened(0, { openFirstMs: 60_000 })
    expect(on.changes).toEqual(['closed > open 60000'])
    expect(on.breaker.admits(START_MS + 59_999)).toBe(false)
    expect([60_000, 600_000, 6_000_000].map((atMs) => failProbe(on, atMs))).toEqual([
      60_000, 60_000, 60_000,
    ])
  })

  it('go on as in one outage if it was closed for no longer than the window', () => {
    const on = opened()
    failProbe(on, 100_000)
    closeAt(on, 110_000)
    play(on, [[120_000, 'fail', 10]])
    expect(on.changes.at(-1)).toBe('closed > open 6000')
  })

  it('begin small again if it was closed for longer than the window', () => {
    const on = opened()
    failProbe(on, 100_000)
    closeAt(on, 110_000)
    play(on, [[120_001, 'fail', 10]])
    expect(on.changes.at(-1)).toBe('closed > open 500')
    expect(failProbe(on, 140_001)).toBe(1_000)
  })
})

/** Lets a probe fail; for how long it is open then, as it is told and as it is. */
function failProbe({ breaker, changes }: Bench, atMs: number): number {
  expect(breaker.admits(START_MS + atMs)).toBe(true)
  breaker.fail(START_MS + atMs, true)
  const waitMs = breaker.waitMs(START_MS + atMs)
  expect(changes.at(-1)).toBe(`half-open > open ${waitMs}`)
  return waitMs
}

function closeAt({ breaker }: Bench, atMs: number): void {
  expect(breaker.admits(START_MS + atMs)).toBe(true)
  breaker.succeed(START_MS + atMs, true)
  expect(breaker.state).toBe('closed')
}

describe('calls without an answer', () => {
  /** `count` calls that began at `fromMs` and have no answer at `atMs`. */
  function silence({ breaker }: Bench, fromMs: number, atMs: number, count: number): void {
    for (let at = 0; at < count; at++) {
      breaker.fail(START_MS + atMs, false, START_MS + fromMs)
    }
  }

  it('do not open it if they all began before the first of them was missed', () => {
    const on = bench()
    silence(on, 0, 15, 64)
    silence(on, 10, 75, 64)
    expect(on.breaker.state).toBe('closed')
  })

  it('do not open it within 50 ms', () => {
    const on = bench()
    silence(on, 0, 15, 64)
    silence(on, 16, 64, 64)
    expect(on.breaker.state).toBe('closed')
  })

  it('open it if later ones stay without an answer after that time', () => {
    const on = bench()
    silence(on, 0, 15, 64)
    silence(on, 50, 65, 1)
    expect(on.changes).toEqual(['closed > open 500'])
  })

  it('are forgotten after the window', () => {
    const on = bench()
    silence(on, 0, 15, 64)
    silence(on, 10_000, 10_015, 64)
    expect(on.breaker.state).toBe('closed')
  })
})
