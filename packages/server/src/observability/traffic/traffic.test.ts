import { type Decision, tokenBucket } from 'tidegate'
import { counterFamily, histogramFamily } from 'tidegate/metrics'
import { describe, expect, test } from 'vitest'
import { Arrivals } from './key-arrivals.ts'
import { quantileOf } from './quantile.ts'
import { RecentRefusals } from './recent-refusals.ts'
import { TrafficHistory } from './traffic-history.ts'

const decision = {
  ...{ limit: 5, remaining: 0, retryAfterMs: 100, resetAfterMs: 100, granted: 0 },
  ...{ degraded: null, source: 'store' },
} as const
const refused = { ...decision, allowed: false } as Decision
const allowed = { ...decision, allowed: true } as Decision

const limit = tokenBucket({ limit: 5, per: '1s' })

describe('the history of traffic', () => {
  const families = () => ({
    decisions: counterFamily({ name: 'd', help: '', labels: ['door', 'outcome', 'by'] }),
    durations: histogramFamily({ name: 't', help: '', labels: ['door', 'by'] }, [0.001, 0.01]),
    limits: counterFamily({ name: 'l', help: '', labels: ['door', 'limit', 'mode', 'outcome'] }),
    used: histogramFamily({ name: 'u', help: '', labels: ['limit'] }, [0.5, 1]),
  })
  const started = () => {
    const of = families()
    const history = new TrafficHistory(() => ({
      decisions: of.decisions.read(),
      durations: of.durations.read(),
      limits: of.limits.read(),
      used: of.used.read(),
      shed: 0,
    }))
    return { ...of, history }
  }

  test('has the differences of each second, also for counts before the first', () => {
    const { decisions, durations, history } = started()
    decisions.of('gateway', 'allowed', 'store').value = 1_000
    history.sample(1_000)
    decisions.of('gateway', 'allowed', 'store').value += 7
    decisions.of('gateway', 'denied', 'denial_cache').value += 2
    decisions.of('gateway', 'allowed', 'open').value += 1
    durations.of('gateway', 'store').observe(0.005, 10)
    history.sample(2_000)
    expect(history.last).toMatchObject({ atMs: 2_000, allowed: 8, denied: 2, degraded: 1 })
    expect(history.last.p50Ms).toBeCloseTo(5.5)
    history.sample(3_000)
    expect(history.column('allowed')).toEqual([8, 0])
  })

  test('has the times of the decisions of 10 seconds', () => {
    const { durations, history } = started()
    history.sample(1_000)
    durations.of('gateway', 'store').observe(0.05, 1)
    history.sample(2_000)
    durations.of('gateway', 'store').observe(0.005, 999)
    for (let second = 3; second <= 11; second++) history.sample(second * 1_000)
    // One decision in a thousand is not the p99, although it is that of its second.
    expect(history.column('p99Ms')[0]).toBe(10)
    expect(history.last.p99Ms).toBeLessThan(9.95)
    history.sample(12_000)
    expect(history.last.p50Ms).toBeCloseTo(5.5)
    history.sample(13_000)
    expect(history.last.p50Ms).toBeNaN()
  })

  test('keeps 900 seconds, the oldest first', () => {
    const { decisions, history } = started()
    for (let second = 0; second <= 1_000; second++) {
      history.sample(second * 1_000)
      decisions.of('gateway', 'allowed', 'store').value += second
    }
    const column = history.column('allowed')
    expect([column.length, column[0], column.at(-1)]).toEqual([900, 100, 999])
  })

  test('has shadow decisions and the share in use of each limit', () => {
    const { limits, used, history } = started()
    limits.of('gateway', 'api', 'enforce', 'allowed').value += 3
    history.sample(10_000)
    limits.of('gateway', 'api', 'enforce', 'denied').value += 2
    limits.of('gateway', 'next', 'shadow', 'denied').value += 4
    used.of('api').observe(0.7, 16)
    history.sample(11_000)
    const [api, next] = history.limits()
    expect(api).toMatchObject({ name: 'api', asked: 5, denied: 2, deniedPerSecond: 2 })
    expect(api?.used).toEqual([0, 16])
    expect(next).toMatchObject({ name: 'next', shadowAsked: 4, shadowDenied: 4, denied: 0 })
  })
})

test('a quantile lies within its bucket, and is null without values', () => {
  expect(quantileOf(0.5, [1, 2], [0, 10], 10)).toBe(1.5)
  expect(quantileOf(0.99, [1, 2], [0, 0], 10)).toBe(2)
  expect(quantileOf(0.5, [1, 2], [0, 0], 0)).toBeNull()
})

describe('recent refusals', () => {
  test('count since the first one, with one reason for each second', () => {
    let nowMs = 100_000
    const recent = new RecentRefusals(() => nowMs)
    for (let at = 0; at < 30; at++) {
      recent.add('api', 'ada', refused, false)
      nowMs += 100
    }
    const found = recent.find('api', 'ada')
    expect(found).toMatchObject({ count: 30, sinceMs: 100_000, lastMs: 102_900, perSecond: 10 })
    expect(found?.last.map(({ atMs }) => atMs)).toEqual([100_000, 101_000, 102_000])
    expect(found?.last[0]?.reason).toBe('5 of 5 used')
    nowMs += 120_000
    recent.add('api', 'ada', refused, false)
    expect(recent.find('api', 'ada')).toMatchObject({ count: 1, sinceMs: nowMs })
  })

  test('of 5,000 keys, the first 4,000 are forgotten', () => {
    const recent = new RecentRefusals()
    for (let at = 0; at < 5_000; at++) recent.add('api', `key-${at}`, refused, false)
    expect(recent.find('api', 'key-3999')).toBeUndefined()
    expect(recent.find('api', 'key-4000')).toBeDefined()
  })
})

describe('the arrivals of keys', () => {
  test('are all there while keys are few, second by second', () => {
    let nowMs = 1_000_000
    const arrivals = new Arrivals(() => nowMs)
    arrivals.add('api', 'ada', 2, limit, allowed)
    nowMs += 2_000
    arrivals.tick()
    arrivals.add('api', 'ada', 1, limit, refused)
    const { keys, keysSeen } = arrivals.read('api')
    expect(keysSeen).toBe(1)
    expect([...(keys[0]?.asked ?? [])].slice(-3)).toEqual([2, 0, 1])
    expect([...(keys[0]?.denied ?? [])].slice(-3)).toEqual([0, 0, 1])
    nowMs += 300_000
    arrivals.tick()
    expect(arrivals.read('api').keys).toEqual([])
  })

  test('are those of at most 32 of 10,000 keys, whose number is estimated', () => {
    const arrivals = new Arrivals()
    for (let at = 0; at < 400_000; at++) {
      arrivals.add('api', `key-${at % 10_000}`, 1, limit, allowed)
      // Not a divisor of the distance between two hashes.
      if (at % 7 === 0) arrivals.add('api', `key-${(at * 31) % 10_000}`, 1, limit, allowed)
    }
    const { keys, keysSeen } = arrivals.read('api')
    expect(keys.length).toBeLessThanOrEqual(32)
    expect(keys.length).toBeGreaterThan(8)
    expect(keysSeen / 10_000).toBeGreaterThan(0.4)
    expect(keysSeen / 10_000).toBeLessThan(2.5)
  })
})
