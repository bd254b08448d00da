import { describe, expect, test } from 'vitest'
import { priorities } from '../limits/priority.ts'
import type { OverloadEvent } from '../observability/events.ts'
import { Overload } from './overload.ts'
import { retryAfterSeconds } from './retry-after.ts'

const settings = { delay: 100, requestsMax: 100, criticalShare: 0.2 }

const TICK_MS = 10

/** Lateness that lasts no longer than this is a burst. */
const BURST_MS = 3_000

/** Samples as the timer takes them from a loop that is that late in every turn. */
function run(overload: Overload, delayMs: number, forMs: number): void {
  const elapsedMs = delayMs + TICK_MS
  for (let passedMs = 0; passedMs < forMs; passedMs += elapsedMs) {
    overload.observe(delayMs, elapsedMs)
  }
}

function shares(overload: Overload): readonly number[] {
  const { sheddingShare } = overload.status()
  return [sheddingShare.sheddable, sheddingShare.normal, sheddingShare.critical]
}

describe('lateness', () => {
  test.for([
    { delayMs: 0, forMs: 60_000, sheddable: [0, 0], normal: [0, 0] },
    { delayMs: 100, forMs: 60_000, sheddable: [0, 0], normal: [0, 0] },
    { delayMs: 110, forMs: BURST_MS, sheddable: [0, 0], normal: [0, 0] },
    { delayMs: 2_000, forMs: BURST_MS, sheddable: [0, 0], normal: [0, 0] },
    { delayMs: 110, forMs: BURST_MS + 500, sheddable: [0.2, 0.6], normal: [0, 0] },
    { delayMs: 110, forMs: BURST_MS + 1_300, sheddable: [1, 1], normal: [0, 0.4] },
    { delayMs: 200, forMs: BURST_MS + 500, sheddable: [0.2, 0.9], normal: [0, 0] },
    { delayMs: 200, forMs: 60_000, sheddable: [1, 1], normal: [1, 1] },
    { delayMs: 5_000, forMs: 60_000, sheddable: [1, 1], normal: [1, 1] },
  ])('of $delayMs ms for $forMs ms sheds by priority', ({ delayMs, forMs, sheddable, normal }) => {
    const overload = new Overload(settings)
    run(overload, delayMs, forMs)
    const [ofSheddable = -1, ofNormal = -1, ofCritical] = shares(overload)
    expect(ofSheddable).toBeGreaterThanOrEqual(sheddable[0] ?? 0)
    expect(ofSheddable).toBeLessThanOrEqual(sheddable[1] ?? 0)
    expect(ofNormal).toBeGreaterThanOrEqual(normal[0] ?? 0)
    expect(ofNormal).toBeLessThanOrEqual(normal[1] ?? 0)
    expect(ofCritical).toBe(0)
  })

  test('of single turns, such as garbage collections, sheds nothing', () => {
    const overload = new Overload(settings)
    for (let at = 0; at < 1_000; at++) {
      run(overload, 0, TICK_MS)
      run(overload, 400, 400)
    }
    expect(shares(overload)).toEqual([0, 0, 0])
    expect(overload.isCalm).toBe(true)
  })

  test('of bursts that are followed by as long without it sheds nothing', () => {
    const overload = new Overload(settings)
    for (let at = 0; at < 20; at++) {
      run(overload, 500, BURST_MS / 2)
      expect(overload.isCalm).toBe(false)
      run(overload, 0, BURST_MS / 2 + 600)
      expect(overload.isCalm).toBe(true)
    }
    expect(shares(overload)).toEqual([0, 0, 0])
  })

  test('that comes back while requests are still shed is not taken for a burst', () => {
    const overload = new Overload(settings)
    run(overload, 300, 2 * BURST_MS)
    run(overload, 0, 1_500)
    const [, before = 0] = shares(overload)
    run(overload, 300, 1_000)
    expect(shares(overload)[1]).toBeGreaterThan(before)
  })

  test('sheds no normal request while it admits a sheddable one', () => {
    const overload = new Overload(settings)
    for (const delayMs of [150, 0, 150, 0, 300, 60, 0, 120]) {
      for (let at = 0; at < 50; at++) {
        overload.observe(delayMs, delayMs + TICK_MS)
        const [sheddable = 0, normal = 0] = shares(overload)
        expect(normal === 0 || sheddable === 1).toBe(true)
      }
    }
  })

  test('between half the bound and all of it changes nothing', () => {
    const overload = new Overload(settings)
    run(overload, 130, BURST_MS + 700)
    // The first samples are still compared with the ones before.
    run(overload, 70, 240)
    const before = shares(overload)
    run(overload, 70, 60_000)
    expect(shares(overload)).toEqual(before)
    expect(before[0]).toBeGreaterThan(0)
  })

  test('that ends brings back normal first, all of it within 5 s', () => {
    const overload = new Overload(settings)
    run(overload, 1_000, 30_000)
    expect(shares(overload)).toEqual([1, 1, 0])
    run(overload, 0, 2_500)
    expect(shares(overload)[0]).toBe(1)
    expect(shares(overload)[1]).toBeLessThan(1)
    run(overload, 0, 2_500)
    expect(shares(overload)).toEqual([0, 0, 0])
    expect(overload.isCalm).toBe(true)
  })
})

describe('a connection that is refused again and again', () => {
  test('is held twice as long each time, for at most a second', () => {
    const overload = new Overload(settings, { random: () => 0 })
    const holds = [1, 2, 3, 4, 5, 6, 1_000].map((refusals) => overload.holdMs(refusals))
    expect(holds).toEqual([100, 200, 400, 800, 1_000, 1_000, 1_000])
  })

  test('does not come back together with the others', () => {
    const overload = new Overload(settings, { random: evenly() })
    const holds = Array.from({ length: 1_000 }, () => overload.holdMs(5))
    expect(Math.min(...holds)).toBeGreaterThanOrEqual(500)
    expect(Math.max(...holds)).toBeLessThanOrEqual(1_000)
    expect(new Set(holds).size).toBeGreaterThan(400)
  })
})

describe('a plant that is as late as it has too much work', () => {
  /** The delay is the backlog; each turn works it off and admits what the controller admits. */
  function settle(offered: number, seconds: number) {
    const overload = new Overload({ ...settings, delay: 20 }, { random: evenly() })
    let backlogMs = 0
    const levels: number[] = []
    const delays: number[] = []
    for (let nowMs = 0; nowMs < seconds * 1_000; ) {
      const turnMs = Math.max(TICK_MS, backlogMs)
      let workMs = 0
      // A request of 0.1 ms each; half normal, half sheddable.
      const arrived = Math.round((turnMs * offered) / 0.1)
      for (let at = 0; at < arrived; at++) {
        const isAdmitted = overload.admits(at % 2 === 0 ? 'normal' : 'sheddable')
        workMs += isAdmitted ? 0.1 : 0.01
      }
      backlogMs = workMs
      nowMs += turnMs
      overload.observe(Math.max(0, turnMs - TICK_MS), turnMs)
      const [sheddable = 0, normal = 0] = shares(overload)
      if (nowMs > (seconds * 1_000) / 2) {
        levels.push(sheddable + normal)
        delays.push(turnMs - TICK_MS)
      }
    }
    return { low: Math.min(...levels), high: Math.max(...levels), delays: delays.sort(byValue) }
  }

  test.for([
    { offered: 0.8, low: 0, high: 0 },
    { offered: 1.2, low: 0.1, high: 0.8 },
    { offered: 2, low: 0.8, high: 1.6 },
    { offered: 4, low: 1.3, high: 2 },
  ])('$offered times its capacity is settled without swings', ({ offered, low, high }) => {
    const settled = settle(offered, 120)
    expect(settled.low).toBeGreaterThanOrEqual(low)
    expect(settled.high).toBeLessThanOrEqual(high)
    expect(settled.high - settled.low).toBeLessThan(0.5)
    expect(settled.delays[Math.floor(settled.delays.length * 0.9)]).toBeLessThan(60)
  })
})

describe('requests in flight', () => {
  test.for([
    { requests: 63, admitted: ['sheddable', 'normal', 'critical'] },
    { requests: 64, admitted: ['normal', 'critical'] },
    { requests: 79, admitted: ['normal', 'critical'] },
    { requests: 80, admitted: ['critical'] },
    { requests: 99, admitted: ['critical'] },
    { requests: 100, admitted: [] },
  ])('with $requests of 100, $admitted are admitted', ({ requests, admitted }) => {
    const overload = new Overload(settings)
    for (let at = 0; at < requests; at++) overload.enter()
    expect(priorities.filter((priority) => overload.admits(priority))).toEqual(admitted)
    expect(overload.isCalm).toBe(requests < 64)
  })

  test('leave room for others when they end', () => {
    const overload = new Overload(settings)
    for (let at = 0; at < 100; at++) overload.enter()
    expect(overload.admits('critical')).toBe(false)
    overload.leave()
    expect(overload.admits('critical')).toBe(true)
    expect(overload.status()).toMatchObject({ requests: 99, shed: { critical: 1 } })
  })

  test('have the maxima of new settings at once', () => {
    const overload = new Overload(settings)
    for (let at = 0; at < 100; at++) overload.enter()
    overload.configure({ ...settings, requestsMax: 200 })
    expect(overload.admits('sheddable')).toBe(true)
  })
})

test('the share that is shed is the share of draws', () => {
  const overload = new Overload(settings, { random: evenly() })
  run(overload, 110, BURST_MS + 700)
  const [share = 0] = shares(overload)
  for (let at = 0; at < 1_000; at++) overload.admits('sheddable')
  expect(overload.status().shed.sheddable / 1_000).toBeCloseTo(share, 2)
})

test('an overload is reported once, and its end with what was shed', () => {
  const events: OverloadEvent[] = []
  const overload = new Overload(settings, { observer: (event) => events.push(event) })
  run(overload, 1_000, 20_000)
  expect(events).toEqual([])
  for (let at = 0; at < 5; at++) {
    overload.admits('sheddable')
    overload.admits('normal')
    run(overload, 1_000, 4_000)
  }
  expect(events).toEqual([{ type: 'overloaded', delayMs: 1_000, requests: 0 }])
  run(overload, 0, 30_000)
  expect(events).toHaveLength(2)
  expect(events[1]).toMatchObject({
    type: 'overload-ended',
    shed: { sheddable: 5, normal: 5, critical: 0 },
  })
  overload.enter()
  run(overload, 0, 30_000)
  expect(events).toHaveLength(2)
})

test('clients come back after 1 to 5 seconds', () => {
  const waits = [0, 0.19, 0.2, 0.5, 0.99].map(retryAfterSeconds)
  expect(waits).toEqual([1, 1, 2, 3, 5])
})

/** Draws that cover everything from 0 to below 1 evenly, by steps of the golden ratio. */
function evenly(): () => number {
  let at = 0
  return () => {
    at = (at + 0.618033988749895) % 1
    return at
  }
}

function byValue(one: number, other: number): number {
  return one - other
}
