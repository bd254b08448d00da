import { expect, test } from 'vitest'
import type { ProbeAnswer } from './probe-doors.ts'
import { Prober } from './prober.ts'

/** A door that answers in this order. */
function door(admitted: number, denied: number, unanswered = 0) {
  const of = (answer: ProbeAnswer, length: number) => Array.from({ length }, () => answer)
  const answers = [
    ...of('admitted', admitted),
    ...of('denied', denied),
    ...of('unanswered', unanswered),
  ]
  const keys = new Set<string>()
  return {
    name: 'gateway' as const,
    keys,
    async ask(key: string) {
      keys.add(key)
      return answers.shift() ?? 'unanswered'
    },
  }
}

test.each([
  [10, 20, 0, { right: 30, over: 0, short: 0, unanswered: 0 }],
  [30, 0, 0, { right: 10, over: 20, short: 0, unanswered: 0 }],
  [11, 19, 0, { right: 29, over: 1, short: 0, unanswered: 0 }],
  [9, 21, 0, { right: 29, over: 0, short: 1, unanswered: 0 }],
  [0, 30, 0, { right: 20, over: 0, short: 10, unanswered: 0 }],
  [8, 20, 2, { right: 28, over: 0, short: 0, unanswered: 2 }],
  [0, 0, 30, { right: 0, over: 0, short: 0, unanswered: 30 }],
])('%i admitted, %i denied, %i unanswered', async (admitted, denied, unanswered, counts) => {
  const prober = new Prober([door(admitted, denied, unanswered)])
  expect(await prober.round()).toEqual([{ door: 'gateway', admitted, counts }])
  const [decisions] = prober.read()
  const samples = decisions?.samples.map(({ labels, value }) => [labels.result, value])
  expect(Object.fromEntries(samples ?? [])).toEqual(counts)
})

test('a round has one key, and the next one another', async () => {
  const asked = door(10, 20)
  const prober = new Prober([asked], () => 5_000)
  await prober.round()
  expect(asked.keys.size).toBe(1)
  await prober.round()
  expect(asked.keys.size).toBe(2)
  expect(prober.read()[1]?.samples).toEqual([{ labels: { door: 'gateway' }, value: 5 }])
})
