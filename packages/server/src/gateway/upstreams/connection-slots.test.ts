import { describe, expect, test, vi } from 'vitest'
import { ConnectionSlots, type Slot, type SlotLimits } from './connection-slots.ts'

const limits: SlotLimits = {
  connectionsMax: 4,
  slotsMax: 8,
  clientShareMax: 1,
  waitMsMax: 60_000,
}

/** ConnectionSlots, and the names of those that got their connection later. */
function start(changes: Partial<SlotLimits> = {}) {
  const slots = new ConnectionSlots({ ...limits, ...changes })
  const started: string[] = []
  const late: string[] = []
  const take = (client: string, name = client, isUrgent = false): Slot =>
    slots.take(
      client,
      {
        onSlot: () => void started.push(name),
        onTimeout: () => void late.push(name),
      },
      isUrgent,
    )
  const fill = (client: string, count = 100) => {
    const taken: Slot[] = []
    while (taken.length < count && slots.hasRoom(client)) taken.push(take(client))
    return taken
  }
  const connected = (taken: readonly Slot[]) => taken.filter(({ isConnected }) => isConnected)
  return { slots, started, late, take, fill, connected }
}

describe('slots', () => {
  test('have as many connections as there are, and the rest waits', () => {
    const { slots, fill, connected } = start()
    const taken = fill('a')
    expect(taken).toHaveLength(8)
    expect(connected(taken)).toHaveLength(4)
    expect(slots.hasRoom('b')).toBe(false)
  })

  test('are given in turns, client by client', () => {
    const { take, started } = start()
    const first = [take('x'), take('x'), take('x'), take('x')]
    for (const name of ['a1', 'a2', 'b1', 'c1']) take(name.charAt(0), name)
    for (const slot of first) slot.release()
    expect(started).toEqual(['a1', 'b1', 'c1', 'a2'])
  })

  test('are given to urgent requests first, also of clients that have more', () => {
    const { take, started } = start({ slotsMax: 16 })
    const first = [take('x'), take('x'), take('x'), take('x')]
    for (const name of ['a1', 'b1', 'x1']) take(name.charAt(0), name)
    for (const name of ['x2', 'a2']) take(name.charAt(0), name, true)
    for (const slot of first) slot.release()
    expect(started).toEqual(['a2', 'x2', 'b1', 'a1'])
  })

  test('are left at once by who goes while waiting', () => {
    const { slots, take, started } = start({ connectionsMax: 1 })
    const first = take('a')
    const gone = take('b', 'gone')
    const last = take('b', 'last')
    gone.release()
    expect(slots.count).toBe(2)
    first.release()
    expect(started).toEqual(['last'])
    expect(last.isConnected).toBe(true)
  })

  test('are left once, however often that is said', () => {
    const { slots, take } = start()
    const slot = take('a')
    slot.release()
    slot.release()
    expect(slots.count).toBe(0)
  })

  test('are waited for no longer than is allowed', () => {
    vi.useFakeTimers()
    const { take, late } = start({ connectionsMax: 1, waitMsMax: 1_000 })
    const first = take('a', 'first')
    take('a', 'second')
    const third = take('a', 'third')
    third.release()
    vi.advanceTimersByTime(999)
    expect(late).toEqual([])
    vi.advanceTimersByTime(1)
    expect(late).toEqual(['second'])
    first.release()
    vi.useRealTimers()
  })
})

describe('a client', () => {
  const half = { connectionsMax: 100, slotsMax: 1_000, clientShareMax: 0.5 }

  test('that is alone gets its share, give or take one', () => {
    const { fill, connected } = start(half)
    const taken = fill('a', 1_000)
    expect(taken).toHaveLength(501)
    expect(connected(taken)).toHaveLength(51)
  })

  test('that is alone gets more where its share is larger', () => {
    const { fill, connected } = start({ ...half, clientShareMax: 0.75 })
    expect(connected(fill('a', 1_000))).toHaveLength(76)
  })

  test.each([1, 2, 4, 5])('gets a connection at once beside %i that hold all they get', (count) => {
    const { take, fill } = start(half)
    for (let client = 0; client < count; client += 1) fill(`holder ${client}`, 1_000)
    expect(take('newcomer').isConnected).toBe(true)
  })

  test('that has none comes before one that has some', () => {
    const { take, fill, started, connected } = start({ ...half, connectionsMax: 3 })
    const holding = fill('a', 10)
    expect(connected(holding)).toHaveLength(2)
    expect(take('b').isConnected).toBe(true)
    take('c', 'c waits')
    holding[0]?.release()
    expect(started[0]).toBe('c waits')
  })

  test('is served to the end, also where it is over its share', () => {
    const { slots, fill } = start({ connectionsMax: 3, slotsMax: 100, clientShareMax: 0.5 })
    const waiting = fill('a')
    expect(waiting.length).toBeGreaterThan(40)
    for (const slot of waiting) {
      expect(slot.isConnected).toBe(true)
      slot.release()
    }
    expect(slots.count).toBe(0)
  })

  test.each([1, 2])('can use all of %i connections', (connectionsMax) => {
    const { fill, connected } = start({ ...half, connectionsMax })
    expect(connected(fill('a', 10))).toHaveLength(connectionsMax)
  })
})
