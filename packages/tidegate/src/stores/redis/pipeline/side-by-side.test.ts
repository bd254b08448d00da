import { expect, test } from 'vitest'
import { FEW, MANY, SideBySide } from './side-by-side.ts'

const FIRST_TRIAL = 16_000
const TURN = 2_048 + 512
const TRIAL = 10 * TURN
const BETWEEN_FIRST = 64_000

/** Lets charges arrive in commands of four, which wait for as long as the number of them makes. */
function arrive(sideBySide: SideBySide, charges: number, waitedMs: (commands: number) => number) {
  for (let left = charges; left > 0; left -= 4) sideBySide.learn(4, waitedMs(sideBySide.commands))
}

function afterTrial(waitedMs: (commands: number) => number): SideBySide {
  const sideBySide = new SideBySide()
  arrive(sideBySide, FIRST_TRIAL + TRIAL, waitedMs)
  expect(sideBySide.isTrial).toBe(false)
  return sideBySide
}

test('many commands are the start, and go without a gain', () => {
  expect(new SideBySide().commands).toBe(MANY)
  expect(afterTrial(() => 0.2).commands).toBe(FEW)
  expect(afterTrial((commands) => (commands === MANY ? 0.3 : 0.2)).commands).toBe(FEW)
})

test('a small gain keeps many commands, and does not bring them back', () => {
  const gain = (commands: number) => (commands === MANY ? 0.18 : 0.195)
  expect(afterTrial(gain).commands).toBe(MANY)
  const sideBySide = afterTrial(() => 0.2)
  arrive(sideBySide, BETWEEN_FIRST + TRIAL, gain)
  expect(sideBySide.commands).toBe(FEW)
})

test('many commands are used where they are faster', () => {
  expect(afterTrial((commands) => (commands === MANY ? 0.2 : 0.3)).commands).toBe(MANY)
})

test('a trial has as many turns of both', () => {
  const sideBySide = new SideBySide()
  arrive(sideBySide, FIRST_TRIAL, () => 0.2)
  const seen = new Map<number, number>()
  while (sideBySide.isTrial) {
    seen.set(sideBySide.commands, (seen.get(sideBySide.commands) ?? 0) + 1)
    sideBySide.learn(4, 0.2)
  }
  expect(seen.get(FEW)).toBe(TRIAL / 2 / 4)
  expect(seen.get(MANY)).toBe(TRIAL / 2 / 4)
})

test('a stall of the machine in one turn decides nothing', () => {
  const sideBySide = new SideBySide()
  arrive(sideBySide, FIRST_TRIAL, () => 0.2)
  arrive(sideBySide, TURN, () => 500)
  arrive(sideBySide, TRIAL - TURN, () => 0.2)
  expect(sideBySide.isTrial).toBe(false)
  expect(sideBySide.commands).toBe(FEW)
})

test('it changes with the machine', () => {
  const sideBySide = afterTrial((commands) => (commands === MANY ? 0.2 : 0.3))
  arrive(sideBySide, BETWEEN_FIRST + TRIAL, (commands) => (commands === MANY ? 0.3 : 0.2))
  expect(sideBySide.commands).toBe(FEW)
  arrive(sideBySide, 2 * BETWEEN_FIRST + TRIAL, (commands) => (commands === MANY ? 0.2 : 0.3))
  expect(sideBySide.commands).toBe(MANY)
})
