import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SpaceSaving } from './space-saving.ts'

test('counts exactly while there is room', () => {
  const list = new SpaceSaving(3)
  for (const key of ['a', 'b', 'a', 'c', 'a', 'b']) list.add(key)
  expect(list.entries()).toEqual([
    { key: 'a', count: 3, error: 0 },
    { key: 'b', count: 2, error: 0 },
    { key: 'c', count: 1, error: 0 },
  ])
  expect([list.total, list.missedMax]).toEqual([6, 1])
})

test('a new key takes the place of the lowest, with its count as the error', () => {
  const list = new SpaceSaving(2)
  for (const key of ['a', 'a', 'b', 'c']) list.add(key)
  expect(list.entries()).toEqual([
    { key: 'a', count: 2, error: 0 },
    { key: 'c', count: 2, error: 1 },
  ])
})

test('bounds hold for every stream, and no frequent key is missed', () => {
  const streams = fc.array(fc.integer({ min: 0, max: 40 }), { maxLength: 600 })
  fc.assert(
    fc.property(streams, fc.integer({ min: 1, max: 12 }), (stream, size) => {
      const list = new SpaceSaving(size)
      const truth = new Map<string, number>()
      for (const number of stream) {
        // Low numbers are frequent.
        const key = String(Math.floor((number * number) / 60))
        list.add(key)
        truth.set(key, (truth.get(key) ?? 0) + 1)
      }
      const entries = list.entries()
      expect(entries.length).toBeLessThanOrEqual(size)
      for (const { key, count, error } of entries) {
        expect(truth.get(key) ?? 0).toBeLessThanOrEqual(count)
        expect(truth.get(key) ?? 0).toBeGreaterThanOrEqual(count - error)
      }
      const listed = new Set(entries.map(({ key }) => key))
      for (const [key, count] of truth) {
        if (count > list.missedMax) expect(listed).toContain(key)
        if (count > stream.length / size) expect(listed).toContain(key)
      }
    }),
  )
})
