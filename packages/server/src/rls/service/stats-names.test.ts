/** Values of requests in names of metrics: their number and their bytes stay bounded. */

import { expect, test } from 'vitest'
import { Stats } from './stats.ts'

test('1,000 short values are counted each, further ones as other', () => {
  const stats = new Stats()
  for (let at = 0; at < 1_200; at += 1) stats.ofDynamic('shop', [`agent_${at}`], 'rule').totalHits++
  const found = [...stats.rules]
  expect(found).toHaveLength(1_001)
  expect(stats.of('shop', ['agent_999']).totalHits).toBe(1)
  expect(stats.of('shop', ['other']).totalHits).toBe(200)
})

test('long values that begin alike are counted apart', () => {
  const stats = new Stats()
  const long = (last: string) => `agent_${'x'.repeat(100)}${last}`
  for (const last of ['a', 'b', 'b']) stats.ofDynamic('shop', [long(last)], 'rule').totalHits++
  const found = [...stats.rules].map(({ name, totalHits }) => [name.length, totalHits])
  expect(found).toEqual([
    ['shop.'.length + 64 + 17, 1],
    ['shop.'.length + 64 + 17, 2],
  ])
  expect(new Set([...stats.rules].map(({ labels }) => labels)).size).toBe(2)
})
