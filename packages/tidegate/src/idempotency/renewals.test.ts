import { describe, expect, it } from 'vitest'
import { manualClock } from '../clock.ts'
import { type Renewable, Renewals } from './renewals.ts'

function setUp() {
  const clock = manualClock()
  const renewals = new Renewals(clock, 100)
  const renewed: string[] = []
  const add = (name: string) => {
    const unlisted = { dueMs: undefined, before: undefined, after: undefined }
    const one: Renewable = { ...unlisted, renew: () => void renewed.push(name) }
    renewals.add(one, clock.now())
    return one
  }
  return { clock, renewals, renewed, add }
}

describe('renewals', () => {
  it('are due in the order in which they were added, each after its own time', () => {
    const { clock, renewed, add } = setUp()
    add('one')
    clock.advance(40)
    add('two')
    clock.advance(59)
    expect(renewed).toEqual([])
    clock.advance(1)
    expect(renewed).toEqual(['one'])
    clock.advance(40)
    expect(renewed).toEqual(['one', 'two'])
    clock.advance(1_000)
    expect(renewed).toEqual(['one', 'two'])
  })

  it('of executions that have ended do not come, and those of others are not late', () => {
    const { clock, renewals, renewed, add } = setUp()
    const first = add('first')
    clock.advance(50)
    add('second')
    renewals.remove(first)
    clock.advance(100)
    expect(renewed).toEqual(['second'])
    const third = add('third')
    renewals.remove(third)
    add('fourth')
    clock.advance(100)
    expect(renewed).toEqual(['second', 'fourth'])
  })

  it('may be removed twice, from any place, and added again', () => {
    const { clock, renewals, renewed, add } = setUp()
    const [one, two, three] = [add('one'), add('two'), add('three')]
    for (const removed of [two, two]) renewals.remove(removed)
    clock.advance(100)
    expect(renewed).toEqual(['one', 'three'])
    for (const added of [three, one, two]) renewals.add(added, clock.now())
    for (const removed of [three, two, two]) renewals.remove(removed)
    clock.advance(100)
    expect(renewed).toEqual(['one', 'three', 'one'])
  })
})
