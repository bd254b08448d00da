import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { type TargetEvent, TargetHealth } from './target-health.ts'

beforeEach(() => void vi.useFakeTimers({ now: Date.UTC(2026, 0, 1) }))

afterEach(() => void vi.useRealTimers())

function start() {
  const events: TargetEvent[] = []
  const health = new TargetHealth({ after: 3, for: 10_000 }, (event) => void events.push(event))
  return { health, events, types: () => events.map(({ type }) => type) }
}

describe('the health of a target', () => {
  test('reports the first failure, the ejection and the recovery, once each', () => {
    const { health, events } = start()
    for (let count = 0; count < 20; count += 1) health.onFailure('ECONNREFUSED')
    expect(health.isEjected(performance.now())).toBe(true)
    vi.advanceTimersByTime(12_000)
    expect(health.isEjected(performance.now())).toBe(false)
    for (let count = 0; count < 5; count += 1) health.onResponse(200)
    expect(events).toEqual([
      { type: 'failing', reason: 'ECONNREFUSED' },
      { type: 'ejected', reason: 'ECONNREFUSED', failures: 3, forMs: 10_000 },
      { type: 'recovered', downMs: 12_000 },
    ])
  })

  test('takes as many failures for another ejection as for the first', () => {
    const { health, types } = start()
    for (let count = 0; count < 3; count += 1) health.onResponse(500)
    vi.advanceTimersByTime(10_000)
    for (let count = 0; count < 2; count += 1) health.onResponse(500)
    expect(health.isEjected(performance.now())).toBe(false)
    health.onResponse(502)
    expect(health.isEjected(performance.now())).toBe(true)
    expect(types()).toEqual(['ejected', 'ejected'])
  })

  test('does not end an ejection for a late response', () => {
    const { health, types } = start()
    for (let count = 0; count < 3; count += 1) health.onResponse(500)
    health.onResponse(200)
    expect(health.isEjected(performance.now())).toBe(true)
    expect(types()).toEqual(['ejected'])
    vi.advanceTimersByTime(10_000)
    health.onResponse(200)
    expect(types()).toEqual(['ejected', 'recovered'])
  })

  test('reports a target that fails now and then once in 10 seconds', () => {
    const { health, types } = start()
    for (let second = 0; second < 20; second += 1) {
      health.onFailure('ECONNRESET')
      health.onResponse(200)
      vi.advanceTimersByTime(1_000)
    }
    expect(types()).toEqual(['failing', 'recovered', 'failing', 'recovered'])
  })

  test('reports no single response with an error: its client sees it', () => {
    const { health, types } = start()
    health.onResponse(500)
    health.onResponse(200)
    expect(types()).toEqual([])
  })

  test('reports health checks when their result changes', () => {
    const { health, events } = start()
    health.onChecked(undefined)
    health.onChecked('status 503')
    health.onChecked('ECONNREFUSED')
    expect([health.isHealthy, health.status().state]).toEqual([false, 'unhealthy'])
    health.onChecked(undefined)
    expect(events).toEqual([{ type: 'unhealthy', reason: 'status 503' }, { type: 'healthy' }])
  })

  test('has a state for operators', () => {
    const { health } = start()
    expect(health.status()).toEqual({ state: 'healthy', failuresInRow: 0 })
    for (let count = 0; count < 4; count += 1) health.onFailure('EPIPE')
    vi.advanceTimersByTime(4_000)
    expect(health.status()).toEqual({
      state: 'ejected',
      ejectedUntil: '2026-01-01T00:00:10.000Z',
      failuresInRow: 4,
      lastFailure: { reason: 'EPIPE', at: '2026-01-01T00:00:00.000Z' },
    })
  })
})
