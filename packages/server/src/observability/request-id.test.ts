import { describe, expect, it } from 'vitest'
import { isRequestId, makeRequestId } from './request-id.ts'

describe('a request id that is made', () => {
  // More than are made at once.
  const ids = Array.from({ length: 1_000 }, makeRequestId)

  it('is a UUID of version 4', () => {
    for (const id of ids) {
      expect(id).toMatch(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/)
      expect(isRequestId(id)).toBe(true)
    }
  })

  it('is another one each time', () => {
    expect(new Set(ids).size).toBe(ids.length)
  })

  it('has every digit in every place but two', () => {
    for (let place = 0; place < 36; place++) {
      const digits = new Set(ids.map((id) => id.charAt(place)))
      const expected = { 8: 1, 13: 1, 14: 1, 18: 1, 19: 4, 23: 1 }[place] ?? 16
      expect([place, digits.size]).toEqual([place, expected])
    }
  })
})
