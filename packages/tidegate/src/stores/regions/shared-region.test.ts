import { describe, expect, test } from 'vitest'
import { fixedWindow } from '../../limits/limits.ts'
import { stampText } from './hlc.ts'
import { SharedRegion } from './shared-region.ts'
import type { SharedEffects, SharedSaved } from './shared-settings.ts'

const KEY = 'key000000000'
const START_MS = 1_800_000_000_000

const incarnation = stampText({ ms: START_MS, count: 0 })
const limit = fixedWindow({ limit: 300, per: '1h' })
const regions = ['a', 'b'].map((name) => ({ name, parts: 1 }))

const at = (steadyMs: number) => ({ steadyMs, storeMs: START_MS + steadyMs })

function started(self: string, saved?: SharedSaved): SharedRegion {
  return new SharedRegion({ regions, self, limit, incarnation, floor: 0 }, at(0), saved)
}

/** Delivers messages and their answers, and returns the entries that each message had. */
function exchange(one: SharedRegion, other: SharedRegion, from: string, ms: number): number[] {
  const to = from === 'a' ? 'b' : 'a'
  const entries: number[] = []
  const note = ({ sends }: SharedEffects) => {
    for (const { message } of sends) entries.push(message.rows.flatMap((row) => row.entries).length)
    return sends
  }
  for (const { message } of note(one.tick(at(ms)))) {
    for (const answer of note(other.receive(from, message, at(ms)))) {
      one.receive(to, answer.message, at(ms))
    }
  }
  return entries
}

describe('a region', () => {
  test('sends what its peer does not know, and acknowledges what it was sent', () => {
    const [a, b] = [started('a'), started('b')]
    b.admitted(KEY, 20, at(1))
    a.admitted(KEY, 10, at(1))
    expect(exchange(a, b, 'a', 200)).toEqual([1, 2])
    expect(exchange(b, a, 'b', 200)).toEqual([1, 1])
    // Nothing is new: a heartbeat at most.
    expect(exchange(a, b, 'a', 2_000)).toEqual([0, 0])
    expect([a, b].map((one) => one.knownUnits(KEY, at(2_000)))).toEqual([30, 30])
  })

  test('that went back to an older state is sent all that it knew before', () => {
    const [a, b] = [started('a'), started('b')]
    a.admitted(KEY, 5, at(1))
    const old = structuredClone(a.save())
    a.admitted(KEY, 5, at(2))
    b.admitted(KEY, 20, at(2))
    exchange(a, b, 'a', 200)
    exchange(b, a, 'b', 200)
    const back = started('a', old)
    back.admitted(KEY, 1, at(300))
    exchange(back, b, 'a', 400)
    expect(back.entries(KEY, at(400)).map(({ own }) => own)).toEqual([10, 20])
  })

  test('repeats at once what was sent while its peer was silent, because answers are lost', () => {
    const [a, b] = [started('a'), started('b')]
    exchange(a, b, 'a', 1_000)
    a.admitted(KEY, 10, at(9_000))
    const [lost] = a.tick(at(9_100)).sends
    b.receive('a', lost?.message as never, at(9_100))
    // The answer is lost. A message of b shows that it is reached again.
    const [later] = b.tick(at(9_300)).sends
    a.receive('b', later?.message as never, at(9_300))
    expect(a.tick(at(9_400)).sends).toHaveLength(1)
  })
})
