import { expect, test } from 'vitest'
import { fc } from '../../../../../test/support/fast-check.ts'
import type { Decision } from '../../decision.ts'
import { tokenBucket } from '../../limits/limits.ts'
import { Denials, type DenialsByKey } from './denials.ts'

const limit = tokenBucket({ limit: 1, per: '1s' })
const question = { limits: [limit], cost: 1 }

test('a limit does not find the denial of another limit with the same key', () => {
  const denials = new Denials()
  const [one, other]: DenialsByKey[] = [new Map(), new Map()]
  denials.add(one as DenialsByKey, 'ada', question, [denied(500)], at(0), ignore)
  expect(denials.findOne(other as DenialsByKey, 'ada', limit, 1, 1)).toBeUndefined()
  expect(denials.findOne(one as DenialsByKey, 'ada', limit, 1, 1)?.retryAfterMs).toBe(499)
})

test('an expired denial of one limit makes room when another limit denies', () => {
  const denials = new Denials()
  const idle: DenialsByKey = new Map()
  const busy: DenialsByKey = new Map()
  const calls: number[] = []
  denials.add(idle, 'ada', question, [denied(100)], at(0), (count) => calls.push(count))
  denials.findOne(idle, 'ada', limit, 1, 50)
  denials.add(busy, 'bob', question, [denied(100)], at(200), ignore)
  expect([idle.size, busy.size, denials.size, calls]).toEqual([0, 1, 1, [1]])
})

test('remembers exactly the denials that were added and not forgotten', () => {
  const step = fc.record({
    kind: fc.constantFrom('add', 'add', 'add', 'find', 'forget', 'clear'),
    place: fc.integer({ min: 0, max: 1 }),
    key: fc.integer({ min: 0, max: 9 }).map(String),
    waitMs: fc.integer({ min: 1, max: 40 }),
    passedMs: fc.integer({ min: 0, max: 10 }),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
      const denials = new Denials()
      const places: DenialsByKey[] = [new Map(), new Map()]
      const untilMs = new Map<string, number>()
      let nowMs = 0
      for (const [count, { kind, place: index, key, waitMs, passedMs }] of steps.entries()) {
        nowMs += passedMs
        const place = places[index] as DenialsByKey
        const label = `${index} ${key}`
        const holds = (untilMs.get(label) ?? 0) > nowMs
        if (kind === 'add') {
          denials.add(place, key, question, [denied(waitMs)], at(nowMs), ignore)
          if (!holds) untilMs.set(label, nowMs + waitMs)
        }
        if (kind === 'find') {
          expect(denials.findOne(place, key, limit, 1, nowMs) !== undefined).toBe(holds)
        }
        if (kind === 'forget') {
          denials.forget(place, key)
          untilMs.delete(label)
        }
        // Clears rarely, so that there are many.
        if (kind === 'clear' && count % 10 === 0) {
          denials.clear()
          untilMs.clear()
        }
        expect(denials.size).toBe(places.reduce((sum, { size }) => sum + size, 0))
        expect(denials.size).toBeGreaterThanOrEqual(
          [...untilMs.values()].filter((until) => until > nowMs).length,
        )
      }
    }),
    { numRuns: 300 },
  )
})

function denied(retryAfterMs: number): Decision {
  return {
    allowed: false,
    limit: 1,
    remaining: 0,
    retryAfterMs,
    resetAfterMs: retryAfterMs,
    granted: 0,
    degraded: null,
    source: 'store',
  }
}

function at(nowMs: number) {
  return { sentMs: nowMs, nowMs }
}

function ignore(): void {
  // The calls are not of interest.
}
