import { expect, test } from 'vitest'
import { counterKey, descriptorOf, domainOf } from './counter-key.ts'

const entries = [
  { key: 'user', value: '3:ada' },
  { key: 'plan', value: '' },
]

test.each(['', 'eu:'])('with the prefix %j, a key is read back', (prefix) => {
  const key = counterKey(prefix, 'shop', entries, [])
  expect(domainOf(prefix, key)).toBe('shop')
  expect(descriptorOf(prefix, key)).toEqual({ domain: 'shop', entries: ['user=3:ada', 'plan='] })
})

test('a key that is too long has no descriptor', () => {
  const key = counterKey('', 'shop', [{ key: 'user', value: 'x'.repeat(400) }], [])
  expect(domainOf('', key)).toBeUndefined()
  expect(descriptorOf('', key)).toBeUndefined()
})
