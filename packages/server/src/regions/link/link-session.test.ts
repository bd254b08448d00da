import type { LookupAddress, LookupOptions } from 'node:dns'
import { expect, test, vi } from 'vitest'
import { createLookup } from './link-session.ts'

type Found = (error: NodeJS.ErrnoException | null, addresses: readonly LookupAddress[]) => void

const address = { address: '192.0.2.1', family: 4 }

/** A lookup whose questions are answered by the test. */
function startLookup() {
  const asked: Found[] = []
  const lookup = createLookup(((_: string, __: LookupOptions, found: Found) => {
    asked.push(found)
  }) as never)
  const find = () =>
    new Promise<unknown>((resolve) => {
      lookup('eu.internal', { all: true }, (error, found) => resolve(error ?? found))
    })
  return { asked, find, lookup }
}

test('attempts side by side share one lookup', async () => {
  const { asked, find } = startLookup()
  const both = [find(), find()]
  expect(asked).toHaveLength(1)
  asked[0]?.(null, [address])
  expect(await Promise.all(both)).toEqual([[address], [address]])
  void find()
  expect(asked).toHaveLength(2)
})

test('a lookup that fails has the addresses of the one before, if there are any', async () => {
  const { asked, find } = startLookup()
  const failure = Object.assign(new Error('no answer'), { code: 'EAI_AGAIN' })
  const first = find()
  asked[0]?.(failure, [])
  expect(await first).toBe(failure)
  const second = find()
  asked[1]?.(null, [address])
  await second
  const third = find()
  asked[2]?.(failure, [])
  expect(await third).toEqual([address])
})

test('a lookup that takes long has the addresses of the one before', async () => {
  vi.useFakeTimers()
  const { asked, find } = startLookup()
  const first = find()
  asked[0]?.(null, [address])
  await first
  const second = find()
  await vi.advanceTimersByTimeAsync(1_000)
  expect(await second).toEqual([address])
  // The lookup is still under way.
  void find()
  expect(asked).toHaveLength(2)
  vi.useRealTimers()
})

test('a caller that wants one address gets the first one', async () => {
  const { asked, lookup } = startLookup()
  const found = new Promise((resolve) => {
    lookup('eu.internal', {}, (_, ...one) => resolve(one))
  })
  asked[0]?.(null, [address, { address: '2001:db8::1', family: 6 }])
  expect(await found).toEqual(['192.0.2.1', 4])
})
