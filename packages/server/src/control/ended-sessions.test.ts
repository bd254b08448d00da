import { expect, test } from 'vitest'
import { until } from '../../../../test/support/servers/until.ts'
import { ControlError } from './control-error.ts'
import { EndedSessions } from './ended-sessions.ts'
import { openLocalKeyValue } from './local-key-value.ts'

test('an ended session is ended for all that share the store, also for later ones', async () => {
  const store = await openLocalKeyValue()
  const [one, other] = [new EndedSessions(store), new EndedSessions(store)]
  await one.add('abc', 2_000, 1_000)
  expect(one.has('abc')).toBe(true)
  await until('the other one knows it', () => other.has('abc'))
  const later = new EndedSessions(store)
  await until('a later one knows it', () => later.has('abc'))
  expect(other.has('abd')).toBe(false)
  for (const ended of [one, other, later]) ended.close()
})

test('ids are forgotten after their end, and the first ones beyond 1,000', async () => {
  const store = await openLocalKeyValue()
  const ended = new EndedSessions(store)
  const keys = async () => (await store.range('live/ended/')).entries.map(({ key }) => key)
  await ended.add('over', 2_000, 1_000)
  await until('it is followed', async () => (await keys()).length === 1)
  await ended.add('first', 5_000, 3_000)
  expect(await keys()).toEqual(['live/ended/first'])
  expect(ended.has('over')).toBe(false)
  for (let at = 0; at < 1_001; at++) await ended.add(`id-${at}`, 9_000 + at, 3_000)
  expect((await keys()).length).toBeLessThanOrEqual(1_001)
  expect(ended.has('first')).toBe(false)
  expect(ended.has('id-1000')).toBe(true)
  ended.close()
})

test('a store that does not answer leaves the session ended here', async () => {
  const store = await openLocalKeyValue()
  const ended = new EndedSessions(store)
  await store.close()
  await expect(store.range('')).rejects.toThrow(ControlError)
  await ended.add('abc', 2_000, 1_000)
  expect(ended.has('abc')).toBe(true)
})
