import { expect, test } from 'vitest'
import { FilteredMap } from './filtered-map.ts'

const texts = ['', 'a', 'ab', 'customer_1', 'customer_2', '\u{1f600}', 'x'.repeat(300)]

test('finds every text of the map, and no other', () => {
  const map = new FilteredMap(new Map(texts.map((text) => [text, text.length])))
  for (const text of texts) expect(map.get(text)).toBe(text.length)
  for (const text of texts) expect(map.get(`${text}-`)).toBeUndefined()
  expect(map.get('bustomer_1')).toBeUndefined()
})

test('finds every one of 50,000 texts, and an empty map none', () => {
  const many = Array.from({ length: 50_000 }, (_, at) => `key-${at}`)
  const map = new FilteredMap(new Map(many.map((text, at) => [text, at])))
  expect(many.filter((text, at) => map.get(text) !== at)).toEqual([])
  expect(map.get('key-50000')).toBeUndefined()
  expect(new FilteredMap(new Map()).get('a')).toBeUndefined()
})
