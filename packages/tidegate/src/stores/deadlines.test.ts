import { randomBytes } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { until } from '../../../../test/support/servers/until.ts'
import { Deadlines, type Timed } from './deadlines.ts'

/** An entry that writes down when its time is over. */
function timed(name: string, told: string[], onExpire = () => {}): Timed {
  return {
    dueMs: 0,
    before: undefined,
    after: undefined,
    expire() {
      told.push(name)
      onExpire()
    },
  }
}

function names(told: readonly string[]): string {
  return told.join(' ')
}

describe('deadlines', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'performance'] })
  })

  afterEach(() => {
    vi.useRealTimers()
  })

  it('are told once each, in the order in which they began, and none before its time', () => {
    const told: string[] = []
    const deadlines = new Deadlines(15)
    for (const name of ['a', 'b', 'c']) {
      deadlines.add(timed(name, told))
      vi.advanceTimersByTime(4)
    }
    vi.advanceTimersByTime(2)
    expect(names(told)).toBe('')
    for (const expected of ['a', 'a', 'a b', 'a b', 'a b c', 'a b c']) {
      vi.advanceTimersByTime(2)
      expect(names(told)).toBe(expected)
    }
    vi.advanceTimersByTime(1_000)
    expect(names(told)).toBe('a b c')
  })

  it('of half a minute are on time, and keep a process for a second at most', () => {
    const told: string[] = []
    const deadlines = new Deadlines(30_000)
    deadlines.add(timed('late', told))
    vi.advanceTimersByTime(29_999)
    expect(names(told)).toBe('')
    vi.advanceTimersByTime(1)
    vi.advanceTimersByTime(1)
    expect(names(told)).toBe('late')
    const removed = timed('removed', told)
    deadlines.add(removed)
    deadlines.remove(removed)
    vi.advanceTimersByTime(1_000)
    expect(vi.getTimerCount()).toBe(0)
  })

  it.each([
    ['the first', [0], 'b c d'],
    ['one in the middle', [2], 'a b d'],
    ['the last', [3], 'a b c'],
    ['neighbours', [1, 2], 'a d'],
    ['all but one', [3, 0, 1], 'c'],
    ['all', [1, 0, 3, 2], ''],
  ])('are not told to what was removed: %s', (_what, removed, left) => {
    const told: string[] = []
    const deadlines = new Deadlines(15)
    const all = ['a', 'b', 'c', 'd'].map((name) => timed(name, told))
    for (const one of all) deadlines.add(one)
    for (const at of removed) deadlines.remove(all[at] as Timed)
    vi.advanceTimersByTime(100)
    expect(names(told)).toBe(left)
  })

  it('take one timer for any number of calls, and none when there are none', () => {
    const told: string[] = []
    const deadlines = new Deadlines(15)
    const all = Array.from({ length: 1_000 }, (_, at) => timed(String(at), told))
    for (const one of all) deadlines.add(one)
    expect(vi.getTimerCount()).toBe(1)
    for (const one of all.slice(10)) deadlines.remove(one)
    vi.advanceTimersByTime(50)
    expect(told).toHaveLength(10)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('begin again after a time without calls', () => {
    const told: string[] = []
    const deadlines = new Deadlines(15)
    deadlines.add(timed('a', told))
    vi.advanceTimersByTime(10_000)
    deadlines.add(timed('b', told))
    vi.advanceTimersByTime(14)
    expect(names(told)).toBe('a')
    vi.advanceTimersByTime(2)
    expect(names(told)).toBe('a b')
  })

  it('hold for a call that begins while another one is told', () => {
    const told: string[] = []
    const deadlines = new Deadlines(15)
    deadlines.add(timed('a', told, () => deadlines.add(timed('b', told))))
    vi.advanceTimersByTime(40)
    expect(names(told)).toBe('a b')
  })

  it('hold for the others where one that is told throws', () => {
    const told: string[] = []
    const deadlines = new Deadlines(15)
    const broken = () => {
      throw new Error('broken')
    }
    deadlines.add(timed('a', told, broken))
    deadlines.add(timed('b', told))
    expect(() => vi.advanceTimersByTime(20)).toThrow('broken')
    deadlines.add(timed('c', told))
    vi.advanceTimersByTime(20)
    expect(names(told)).toBe('a b c')
  })
})

describe('deadlines of a process that is busy', () => {
  it('expire after a stall only when its length has passed once more', async () => {
    const told: string[] = []
    new Deadlines(200).add(timed('a', told))
    stall(300)
    const stalledMs = performance.now()
    await until('it expires', () => told.length > 0)
    expect(performance.now() - stalledMs).toBeGreaterThan(99)
    expect(told).toEqual(['a'])
  })

  it('are longer after a stall, by as much as the stall was', async () => {
    const told: string[] = []
    const deadlines = new Deadlines(15)
    deadlines.add(timed('a', told))
    stall(75)
    const stalledMs = performance.now()
    await until('it expires', () => told.length > 0)
    expect(performance.now() - stalledMs).toBeGreaterThan(55)
    const addedMs = performance.now()
    deadlines.add(timed('b', told))
    await until('the next one expires', () => told.length > 1)
    expect(performance.now() - addedMs).toBeGreaterThan(70)
  })

  it('are not told to what was answered meanwhile', async () => {
    const told: string[] = []
    const deadlines = new Deadlines(15)
    const answered = timed('answered', told)
    deadlines.add(answered)
    randomBytes(16, () => deadlines.remove(answered))
    deadlines.add(timed('other', told))
    stall(100)
    await until('the other is told', () => told.length > 0)
    expect(names(told)).toBe('other')
  })

  it('are not told to what was sent only afterwards and is answered soon', async () => {
    const told: string[] = []
    const deadlines = new Deadlines(15)
    const sent = timed('sent', told)
    deadlines.add(sent)
    deadlines.add(timed('other', told))
    // An answer that takes three turns of the event loop.
    const answer = turn()
      .then(() => turn())
      .then(() => turn())
      .then(() => deadlines.remove(sent))
    stall(20)
    await answer
    await until('the other is told', () => told.length > 0)
    expect(names(told)).toBe('other')
  })

  it('are judged each after a look of its own', async () => {
    const told: string[] = []
    const deadlines = new Deadlines(50)
    const second = timed('second', told)
    // Busy just behind the look at the first one, until the second one is due and was answered.
    const behind = () => {
      randomBytes(16, () => deadlines.remove(second))
      stall(150)
    }
    setTimeout(() => setImmediate(behind), 50)
    // Due for sure when the timer looks.
    deadlines.add(timed('first', told), performance.now() - 5)
    deadlines.add(second, performance.now() + 20)
    await until('the first is told', () => told.length > 0)
    expect(names(told)).toBe('first')
  })

  it('expire although it is busy all the time, if nothing comes', async () => {
    const told: string[] = []
    new Deadlines(15).add(timed('a', told))
    for (let at = 0; at < 100 && told.length === 0; at++) {
      await turn()
      stall(30)
    }
    expect(told).toEqual(['a'])
  })
})

describe('deadlines of a process that works for most of the time', () => {
  it('give a grace although no timer is late', async () => {
    const told: string[] = []
    const startMs = performance.now()
    new Deadlines(100).add(timed('a', told))
    // Turns of a millisecond each, so that timers are on time and the loop hardly waits.
    while (told.length === 0 && performance.now() - startMs < 10_000) {
      stall(1)
      await turn()
    }
    expect(performance.now() - startMs).toBeGreaterThan(150)
  })
})

/** Keeps the event loop from turning. */
function stall(forMs: number): void {
  const endMs = performance.now() + forMs
  while (performance.now() < endMs);
}
