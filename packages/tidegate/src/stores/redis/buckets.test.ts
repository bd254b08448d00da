import { hash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { BUCKETS_DEFAULT, BUCKETS_MAX, bucketTags } from './buckets.ts'
import { SLOTS, slotOf } from './cluster-slot.ts'
import { RedisKeys } from './redis-key.ts'

/** The master of a slot, with ranges of equal length as `redis-cli --cluster create` gives them. */
function masterOf(slot: number, masters: number): number {
  return Math.floor((slot * masters) / SLOTS)
}

/** How many times the mean number of buckets the fullest master has. */
function fullest(count: number, masters: number): number {
  const counts = new Array<number>(masters).fill(0)
  for (const tag of bucketTags(count)) {
    const master = masterOf(slotOf(tag), masters)
    counts[master] = (counts[master] ?? 0) + 1
  }
  return (Math.max(...counts) * masters) / count
}

describe('buckets', () => {
  test.each([1, 2, 32, 100, 512, BUCKETS_MAX])('%i have different slots', (count) => {
    const slots = bucketTags(count).map(slotOf)
    expect(new Set(slots).size).toBe(count)
  })

  test('keep their tags for good, because keys in Redis contain them', () => {
    const digest = (count: number) => hash('sha1', bucketTags(count).join('')).slice(0, 12)
    expect(digest(BUCKETS_DEFAULT)).toBe('a4a062a6920c')
    expect(digest(512)).toBe('18e9810c114c')
    expect(digest(BUCKETS_MAX)).toBe('33ebfdc5f934')
  })

  test.each([
    [BUCKETS_DEFAULT, 3],
    [BUCKETS_DEFAULT, 7],
    [512, 50],
  ])('%i give %i masters equal shares', (count, masters) => {
    expect(fullest(count, masters)).toBeLessThan(1.1)
  })

  test('have equal shares of the keys', () => {
    const redisKeys = new RedisKeys('tg', bucketTags(BUCKETS_DEFAULT))
    const counts = new Map<string, number>()
    for (let at = 0; at < 64_000; at++) {
      const [tag = ''] = redisKeys.of('api', 'tokenBucket', `user:${at}`).match(/{..}/) ?? []
      counts.set(tag, (counts.get(tag) ?? 0) + 1)
    }
    expect(counts.size).toBe(BUCKETS_DEFAULT)
    // 2,000 each, with a standard deviation of 44.
    for (const count of counts.values()) expect(Math.abs(count - 2_000)).toBeLessThan(250)
  })

  test('leave the tag of a group alone', () => {
    const redisKeys = new RedisKeys('tg', bucketTags(BUCKETS_DEFAULT))
    const inOrg = (name: string) => slotOf(redisKeys.of(name, 'tokenBucket', name, 'org'))
    expect(inOrg('user')).toBe(inOrg('address'))
    expect(redisKeys.of('user', 'tokenBucket', 'ada', 'org')).toMatch(/^tg{[\w-]{12}}[\w-]{12}$/)
  })
})
