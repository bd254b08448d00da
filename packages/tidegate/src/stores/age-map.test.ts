import { expect, test } from 'vitest'
import { fc } from '../../../../test/support/fast-check.ts'
import { AgeMap } from './age-map.ts'

test('an entry that is set again is the youngest', () => {
  const map = new AgeMap<number>()
  map.set('a', 1)
  map.set('b', 2)
  expect(map.oldest()).toBe('a')
  map.set('a', 3)
  expect(map.oldest()).toBe('b')
  expect([...map.values()]).toEqual([2, 3])
})

test('finds entries that are added after the last one was deleted', () => {
  const map = new AgeMap<number>()
  for (const key of ['a', 'b', 'c']) {
    expect(map.oldest()).toBeUndefined()
    map.set(key, 1)
    expect(map.oldest()).toBe(key)
    expect(map.delete(key)).toBe(true)
  }
  map.set('d', 1)
  expect(map.oldest()).toBe('d')
  map.clear()
  expect(map.oldest()).toBeUndefined()
  map.set('e', 1)
  expect(map.oldest()).toBe('e')
})

test('has the order of a Map in which each entry is deleted before it is set', () => {
  const key = fc.integer({ min: 0, max: 20 }).map(String)
  const step = fc.oneof(
    fc.record({ kind: fc.constantFrom('set', 'delete', 'oldest'), key }),
    fc.record({ kind: fc.constantFrom('drop', 'clear'), key }),
  )
  const history = fc.array(step, { maxLength: 200 })
  fc.assert(
    fc.property(history, (steps) => {
      const map = new AgeMap<string>()
      const model = new Map<string, string>()
      const oldest = () => [...model.keys()][0]
      for (const [at, { kind, key }] of steps.entries()) {
        if (kind === 'oldest') expect(map.oldest()).toBe(oldest())
        if (kind === 'delete') expect(map.delete(key)).toBe(model.delete(key))
        if (kind === 'set') {
          map.set(key, `${at}`)
          model.delete(key)
          model.set(key, `${at}`)
        }
        if (kind === 'drop') {
          const first = map.oldest()
          expect(first).toBe(oldest())
          if (first !== undefined) expect(map.delete(first)).toBe(model.delete(first))
        }
        // Clears rarely, so that maps grow.
        if (kind === 'clear' && at % 10 === 0) {
          map.clear()
          model.clear()
        }
        expect(map.size).toBe(model.size)
        expect(map.get(key)).toBe(model.get(key))
      }
      expect([...map.values()]).toEqual([...model.values()])
    }),
    { numRuns: 200 },
  )
})
