import { expect, test } from 'vitest'
import { compileIpLists } from './ip-lists.ts'

const verdict = compileIpLists({
  deny: ['203.0.113.0/24', '10.1.2.3', '2001:db8::/32', '0.0.0.0/1'],
  allow: ['203.0.113.7', '10.0.0.0/8', '2001:db8:1::/48', '198.51.100.1/32'],
})

test.each([
  ['203.0.113.1', 'deny'],
  ['203.0.113.7', 'allow'],
  ['::ffff:203.0.113.1', 'deny'],
  ['10.1.2.3', 'deny'],
  ['10.1.2.4', 'allow'],
  ['9.9.9.9', 'deny'],
  ['127.255.255.255', 'deny'],
  ['128.0.0.0', undefined],
  ['2001:db8:2::1', 'deny'],
  ['2001:DB8:1::1', 'allow'],
  ['2001:db9::1', undefined],
  ['198.51.100.1', 'allow'],
  ['no address', undefined],
  [undefined, undefined],
])('%s: the longest prefix says %s', (ip, expected) => {
  expect(verdict(ip)).toBe(expected)
})

test('an address on both lists is denied', () => {
  const both = compileIpLists({ deny: ['192.0.2.1'], allow: ['192.0.2.1/32'] })
  expect(both('192.0.2.1')).toBe('deny')
})

test('empty lists say nothing', () => {
  expect(compileIpLists({ deny: [], allow: [] })('192.0.2.1')).toBeUndefined()
})

test('a prefix of nothing holds everybody', () => {
  const all = compileIpLists({ deny: ['0.0.0.0/0', '::/0'], allow: [] })
  expect([all('192.0.2.1'), all('2001:db8::1')]).toEqual(['deny', 'deny'])
})
