import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Turns } from './turns.ts'

test('requests of one turn are handled in order, 16 in each turn', async () => {
  const turns = new Turns()
  const handled: number[] = []
  const all = Array.from({ length: 40 }, (_, at) => at)
  for (const at of all) turns.add(() => void handled.push(at))
  const counts = [handled.length]
  while (handled.length < all.length) {
    await nextTurn()
    counts.push(handled.length)
  }
  expect(counts).toEqual([16, 32, 40])
  expect(handled).toEqual(all)
})

test('a request behind others that wait does not overtake them', async () => {
  const turns = new Turns()
  const handled: number[] = []
  for (let at = 0; at < 40; at += 1) turns.add(() => void handled.push(at))
  await nextTurn()
  turns.add(() => void handled.push(40))
  while (handled.length < 41) await nextTurn()
  expect(handled).toEqual(Array.from({ length: 41 }, (_, at) => at))
})
