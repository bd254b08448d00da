import { expect, test } from 'vitest'
import { TextTable } from './text-table.ts'

const texts = ['', 'a', 'ab', 'customer_1', 'customer_2', '\u{1f600}', 'x'.repeat(300)]

test('finds every text of the map, and no other', () => {
  const map = new TextTable(new Map(texts.map((text) => [text, text.length])))
  for (const text of texts) expect(map.get(text)).toBe(text.length)
  for (const text of texts) expect(map.get(`${text}-`)).toBeUndefined()
  expect(map.get('bustomer_1')).toBeUndefined()
})

test('finds every one of 50,000 texts, and an empty map none', () => {
  const many = Array.from({ length: 50_000 }, (_, at) => `key-${at}`)
  const map = new TextTable(new Map(many.map((text, at) => [text, at])))
  expect(many.filter((text, at) => map.get(text) !== at)).toEqual([])
  expect(map.get('key-50000')).toBeUndefined()
  expect(new TextTable(new Map()).get('a')).toBeUndefined()
})

test('finds texts with the same end, such as addresses of e-mail', () => {
  const many = Array.from({ length: 500 }, (_, at) => `user-${1_000 + at}@example.com`)
  const map = new TextTable(new Map(many.map((text, at) => [text, at])))
  expect(many.filter((text, at) => map.get(text) !== at)).toEqual([])
  expect(map.get('user-2000@example.com')).toBeUndefined()
})

test('finds every one of more texts than it has numbers for', () => {
  const many = Array.from({ length: 2 ** 17 }, (_, at) => `key-${at}`)
  const map = new TextTable(new Map(many.map((text, at) => [text, at])))
  expect([map.get('key-0'), map.get(`key-${2 ** 17 - 1}`)]).toEqual([0, 2 ** 17 - 1])
  expect(map.get('key-x')).toBeUndefined()
})
