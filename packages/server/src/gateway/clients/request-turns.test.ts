import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { RequestTurns } from './request-turns.ts'

function turns(isUrgent: (request: number) => boolean = () => false) {
  const handled: number[] = []
  const waits: number[] = []
  const all = new RequestTurns<number>({
    handle: (request) => handled.push(request),
    isUrgent,
    onWait: (waitedMs) => waits.push(waitedMs),
  })
  const take = (from: number, count: number) => {
    for (let at = from; at < from + count; at++) all.take(at)
  }
  return { handled, waits, take, all }
}

test('handles 64 requests of a turn at once and the rest in later turns, in order', async () => {
  const { handled, waits, take } = turns()
  take(0, 250)
  expect(handled).toHaveLength(64)
  await nextTurn()
  expect(handled.length).toBeGreaterThan(64)
  expect(handled.length).toBeLessThanOrEqual(128)
  while (handled.length < 250) await nextTurn()
  expect(handled).toEqual(Array.from({ length: 250 }, (_, at) => at))
  expect(waits.length).toBeGreaterThanOrEqual(3)
  expect(Math.min(...waits)).toBeGreaterThanOrEqual(0)
})

test('ends the share of a turn when its time is over', async () => {
  const handled: number[] = []
  const all = new RequestTurns<number>({
    handle: (request) => {
      handled.push(request)
      const endMs = performance.now() + 2
      while (handled.length > 64 && performance.now() < endMs);
    },
    isUrgent: () => false,
    onWait: () => undefined,
  })
  for (let at = 0; at < 70; at++) all.take(at)
  for (let turn = 1; turn <= 6; turn++) {
    await nextTurn()
    expect(handled).toHaveLength(64 + turn)
  }
})

test('lets nothing pass requests that wait, but urgent ones', async () => {
  const { handled, take } = turns((request) => request >= 10_000)
  take(0, 150)
  take(150, 1)
  take(10_000, 1)
  expect(handled.slice(-2)).toEqual([63, 10_000])
  while (handled.length < 152) await nextTurn()
  expect(handled.at(-1)).toBe(150)
})

test('makes no request wait while each turn has few', async () => {
  const { handled, waits, take } = turns()
  for (let turn = 0; turn < 20; turn++) {
    take(turn * 60, 60)
    expect(handled).toHaveLength((turn + 1) * 60)
    await nextTurn()
  }
  expect(waits).toEqual([])
})

test('takes a request that comes while others of a turn are handled', async () => {
  const handled: number[] = []
  const all: RequestTurns<number> = new RequestTurns<number>({
    handle: (request) => {
      handled.push(request)
      if (request < 2_000) all.take(request + 1_000)
    },
    isUrgent: () => false,
    onWait: () => undefined,
  })
  for (let at = 0; at < 1_000; at++) all.take(at)
  while (handled.length < 3_000) await nextTurn()
  expect(handled.toSorted((one, other) => one - other)).toEqual(
    Array.from({ length: 3_000 }, (_, at) => at),
  )
})
