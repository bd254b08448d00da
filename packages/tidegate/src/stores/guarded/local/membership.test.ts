import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { StoreCapabilities } from '../../store.ts'
import { Membership } from './membership.ts'

type Heartbeat = NonNullable<StoreCapabilities['heartbeat']>

/** Members as a shared store knows them: each with the end of its registration. */
function members() {
  const until = new Map<string, number>()
  const heartbeat: Heartbeat = async (id, lifetimeMs) => {
    if (lifetimeMs > 0) until.set(id, performance.now() + lifetimeMs)
    else until.delete(id)
    return [...until.values()].filter((endMs) => endMs > performance.now()).length
  }
  return { until, heartbeat }
}

/** A member, and the numbers that it was told of. */
function member(heartbeat: Heartbeat | undefined) {
  const counts: number[] = []
  const membership = new Membership(heartbeat, (count) => counts.push(count))
  return { membership, counts }
}

beforeEach(() => {
  const timers = ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] as const
  vi.useFakeTimers({ toFake: [...timers, 'performance'] })
})

afterEach(() => {
  vi.useRealTimers()
})

describe('membership', () => {
  it('counts one before it has heard of others, and without a heartbeat', async () => {
    const { membership } = member(undefined)
    expect(membership.count).toBe(1)
    membership.start()
    await vi.advanceTimersByTimeAsync(60_000)
    expect(membership.count).toBe(1)
    await membership.stop()
  })

  it('counts those that came, those that went, and those that died', async () => {
    const { until, heartbeat } = members()
    const first = member(heartbeat)
    first.membership.start()
    const others = [member(heartbeat), member(heartbeat)]
    for (const { membership } of others) membership.start()
    await vi.advanceTimersByTimeAsync(2_000)
    expect(first.membership.count).toBe(3)
    await others[0]?.membership.stop()
    await vi.advanceTimersByTimeAsync(2_000)
    expect(first.membership.count).toBe(2)
    until.set('a process that dies', performance.now() + 10_000)
    await vi.advanceTimersByTimeAsync(2_000)
    expect(first.membership.count).toBe(3)
    await vi.advanceTimersByTimeAsync(10_000)
    expect(first.membership.count).toBe(2)
    expect(first.counts).toEqual([3, 2, 3, 2])
    await Promise.all([first, ...others].map(({ membership }) => membership.stop()))
    expect(until.size).toBe(1)
  })

  it('is told every two seconds, begun once however often it is started', async () => {
    let beats = 0
    const { membership } = member(async () => ++beats)
    for (let at = 0; at < 10; at++) membership.start()
    expect(beats).toBe(1)
    await vi.advanceTimersByTimeAsync(20_000)
    expect(beats).toBe(11)
    await membership.stop()
    await vi.advanceTimersByTimeAsync(20_000)
    expect(beats).toBe(12)
  })

  it('keeps the last number while the store fails, hangs or throws', async () => {
    let answer: Heartbeat = async () => 7
    const { membership, counts } = member((id, lifetimeMs) => answer(id, lifetimeMs))
    membership.start()
    await vi.advanceTimersByTimeAsync(0)
    const faults: Heartbeat[] = [
      () => Promise.reject(new Error('down')),
      () => new Promise<never>(() => {}),
      () => {
        throw new Error('down')
      },
    ]
    for (const fault of faults) {
      answer = fault
      await vi.advanceTimersByTimeAsync(6_000)
      expect(membership.count).toBe(7)
    }
    answer = async () => 8
    await vi.advanceTimersByTimeAsync(2_000)
    expect(counts).toEqual([7, 8])
    await membership.stop()
  })

  it('does not throw where the first heartbeat does', async () => {
    const { membership } = member(() => {
      throw new Error('down')
    })
    expect(() => membership.start()).not.toThrow()
    await membership.stop()
  })

  it.each([0, -1, Number.NaN, 2.5, Infinity, '3', null, undefined])(
    'does not believe that there are %s',
    async (count) => {
      const { membership, counts } = member(async () => count as number)
      membership.start()
      await vi.advanceTimersByTimeAsync(4_000)
      expect(membership.count).toBe(1)
      expect(counts).toEqual([])
      await membership.stop()
    },
  )

  it('tells the store when it stops, and hears nothing after that', async () => {
    const told: Array<[string, number]> = []
    let answer: (count: number) => void = () => {}
    const { membership, counts } = member((id, lifetimeMs) => {
      told.push([id, lifetimeMs])
      return lifetimeMs === 0 ? Promise.resolve(0) : new Promise((resolve) => (answer = resolve))
    })
    membership.start()
    await membership.stop()
    answer(5)
    await vi.advanceTimersByTimeAsync(10_000)
    const [[id]] = told as [[string, number]]
    expect(told).toEqual([
      [id, 10_000],
      [id, 0],
    ])
    expect(counts).toEqual([])
    await membership.stop()
    expect(told).toHaveLength(2)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('stops within a second though the store hangs', async () => {
    const { membership } = member(() => new Promise<never>(() => {}))
    membership.start()
    let isStopped = false
    void membership.stop().then(() => {
      isStopped = true
    })
    await vi.advanceTimersByTimeAsync(1_000)
    expect(isStopped).toBe(true)
  })
})

it('membership does not keep a process alive', () => {
  const module = join(import.meta.dirname, 'membership.ts')
  const script = `
    const { Membership } = await import(${JSON.stringify(module)})
    const membership = new Membership(async () => 2, (count) => console.log(count))
    membership.start()`
  const args = ['--input-type=module', '--eval', script]
  const child = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 20_000 })
  expect({ status: child.status, stdout: child.stdout }).toEqual({ status: 0, stdout: '2\n' })
})
