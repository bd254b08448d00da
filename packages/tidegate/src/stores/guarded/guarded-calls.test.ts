import { randomBytes } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Decision } from '../../decision.ts'
import { TidegateError } from '../../errors.ts'
import { tokenBucket } from '../../limits/limits.ts'
import type { Observer } from '../../observer.ts'
import { chargeOneAsGroup } from '../charge-one.ts'
import { memoryStore } from '../memory/memory-store.ts'
import type { MaybePromise, Store } from '../store.ts'
import type { GuardedOptions } from './guarded-options.ts'
import { guardedStore } from './guarded-store.ts'

/** What becomes of the call that has this number, counted from 1. */
type Script = (call: number, answer: () => readonly Decision[]) => MaybePromise<readonly Decision[]>

/** A guarded store whose calls go as the script says. */
function guarded(script: Script, options: GuardedOptions = {}, more: Partial<Store> = {}) {
  const memory = memoryStore()
  const remote = { calls: 0 }
  const answer: Store['charge'] = (group, mode) =>
    script(++remote.calls, () => memory.charge(group, mode))
  const store: Store = {
    isRemote: true,
    charge: answer,
    chargeOne: chargeOneAsGroup,
    adjust: (group) => memory.adjust(group),
    reset: (group) => memory.reset(group),
    close: () => memory.close(),
    ...more,
  }
  const guard = guardedStore(store, options)
  const ask = async (key = 'key') => {
    const limit = tokenBucket({ limit: 1_000_000, per: '1h' })
    return (await guard.charge([{ name: 'limit', key, limit, cost: 1 }], 'all'))[0] as Decision
  }
  return { remote, ask }
}

const hangs = () => new Promise<never>(() => {})

const fails = () => Promise.reject(new TidegateError('store-unreachable', 'it is down'))

/** So that no number of failures opens it. */
const withoutBreaker = { breaker: { callsMin: 1_000_000 } }

/** So that the first failure does. */
const atOnce = { breaker: { callsMin: 1, errorRate: 0 } }

function reasons(decisions: readonly Decision[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { degraded } of decisions) {
    const reason = degraded?.reason ?? 'none'
    counts[reason] = (counts[reason] ?? 0) + 1
  }
  return counts
}

function useFakeTime(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'performance'] })
}

afterEach(() => {
  vi.useRealTimers()
})

describe('calls under way', () => {
  it('are at most `queueMax`; one more is shed at once', async () => {
    useFakeTime()
    const { remote, ask } = guarded(hangs, { ...withoutBreaker, queueMax: 20_000 })
    const calls = Array.from({ length: 20_000 }, () => ask())
    const shed = { allowed: false, granted: 0, degraded: { reason: 'overloaded', mode: 'shed' } }
    expect(await ask()).toMatchObject(shed)
    expect(reasons(await Promise.all([ask(), ask(), ask()]))).toEqual({ overloaded: 3 })
    expect(remote.calls).toBe(20_000)
    // One for all deadlines, and one for the warning.
    expect(vi.getTimerCount()).toBe(2)
    await vi.advanceTimersByTimeAsync(20)
    expect(reasons(await Promise.all(calls))).toEqual({ timeout: 20_000 })
  })

  it('make room for as many again when they are over, however they ended', async () => {
    useFakeTime()
    const mistake = () => Promise.reject(new TidegateError('invalid-cost', 'too much'))
    const ways: Script[] = [hangs, fails, mistake, async (_call, answer) => answer()]
    const script: Script = (call, answer) => (ways[call % ways.length] as Script)(call, answer)
    const { ask } = guarded(script, { ...withoutBreaker, queueMax: 20_000 })
    for (let round = 0; round < 2; round++) {
      const calls = Array.from({ length: 20_000 }, () => ask())
      const outcomes = Promise.allSettled(calls)
      await vi.advanceTimersByTimeAsync(20)
      const settled = (await outcomes).filter(({ status }) => status === 'fulfilled')
      const decisions = settled.map((outcome) => (outcome as { value: Decision }).value)
      expect(reasons(decisions)).toEqual({ timeout: 5_000, unreachable: 5_000, none: 5_000 })
    }
    await vi.advanceTimersByTimeAsync(100)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('of a store that hangs for ever stay bounded by the breaker', async () => {
    useFakeTime()
    const { remote, ask } = guarded(hangs)
    const asked: Array<Promise<Decision>> = []
    for (let ms = 0; ms < 60_000; ms += 10) {
      asked.push(ask())
      await vi.advanceTimersByTimeAsync(10)
    }
    await vi.advanceTimersByTimeAsync(20)
    expect((await Promise.all(asked)).every(({ degraded }) => degraded !== null)).toBe(true)
    expect(remote.calls).toBeLessThan(100)
  })
})

describe('an answer that comes after the deadline', () => {
  it('changes nothing, whether it is a decision or an error', async () => {
    useFakeTime()
    const late = async (call: number, answer: () => readonly Decision[]) => {
      await new Promise((resolve) => setTimeout(resolve, 100))
      if (call % 2 === 0) throw new TidegateError('store-misconfigured', 'it is late and wrong')
      return answer()
    }
    const events: string[] = []
    const observer: Observer = ({ type }) => events.push(type)
    const { remote, ask } = guarded(late, { ...withoutBreaker, observer, queueMax: 20_000 })
    const calls = Array.from({ length: 10 }, () => ask())
    await vi.advanceTimersByTimeAsync(20)
    expect(reasons(await Promise.all(calls))).toEqual({ timeout: 10 })
    // An unhandled error would fail this run.
    await vi.advanceTimersByTimeAsync(1_000)
    expect(remote.calls).toBe(10)
    expect(events).toEqual(Array.from({ length: 10 }, () => 'degraded'))
    const flood = Array.from({ length: 20_010 }, () => ask())
    await vi.advanceTimersByTimeAsync(20)
    expect(reasons(await Promise.all(flood))).toEqual({ timeout: 20_000, overloaded: 10 })
  })

  it('is not a success for the breaker', async () => {
    useFakeTime()
    const late = async (_call: number, answer: () => readonly Decision[]) => {
      await new Promise((resolve) => setTimeout(resolve, 100))
      return answer()
    }
    const { ask } = guarded(late, atOnce)
    const first = ask()
    await vi.advanceTimersByTimeAsync(80)
    expect((await first).degraded?.reason).toBe('timeout')
    const second = ask()
    await vi.advanceTimersByTimeAsync(20)
    expect((await second).degraded?.reason).toBe('timeout')
    await vi.advanceTimersByTimeAsync(100)
    expect((await ask()).degraded?.reason).toBe('breaker-open')
  })
})

describe('a store that is down', () => {
  it('is not asked while the breaker is open, and once when the pause is over', async () => {
    useFakeTime()
    const { remote, ask } = guarded(fails)
    for (let at = 0; at < 10; at++) expect((await ask()).degraded?.reason).toBe('unreachable')
    for (let at = 0; at < 100; at++) expect((await ask()).degraded?.reason).toBe('breaker-open')
    await vi.advanceTimersByTimeAsync(399)
    expect((await ask()).degraded?.reason).toBe('breaker-open')
    expect(remote.calls).toBe(10)
    await vi.advanceTimersByTimeAsync(101)
    const calls = Array.from({ length: 50 }, () => ask())
    expect(reasons(await Promise.all(calls))).toEqual({ unreachable: 1, 'breaker-open': 49 })
    expect(remote.calls).toBe(11)
  })

  it('is used again by all as soon as the probe has succeeded', async () => {
    useFakeTime()
    const { ask } = guarded(async (call, answer) => (call <= 10 ? fails() : answer()))
    for (let at = 0; at < 10; at++) await ask()
    await vi.advanceTimersByTimeAsync(500)
    expect((await ask()).degraded).toBe(null)
    const calls = Array.from({ length: 50 }, () => ask())
    expect(reasons(await Promise.all(calls))).toEqual({ none: 50 })
  })

  it('is probed again where the probe did not even begin, among too many others', async () => {
    useFakeTime()
    const script: Script = (call, answer) => {
      if (call <= 10) return fails()
      return call <= 20_010 ? hangs() : answer()
    }
    const shardOf = ({ key }: { readonly key: string }) => key
    const { ask } = guarded(script, { queueMax: 20_000 }, { capabilities: { shardOf } })
    for (let at = 0; at < 10; at++) await ask('down')
    await vi.advanceTimersByTimeAsync(500)
    const flood = Array.from({ length: 20_000 }, () => ask('hung'))
    expect((await ask('down')).degraded?.reason).toBe('overloaded')
    await vi.advanceTimersByTimeAsync(20)
    await Promise.all(flood)
    expect((await ask('down')).degraded).toBe(null)
  })

  it('is probed again where the probe was the mistake of its caller', async () => {
    useFakeTime()
    const script: Script = async (call, answer) => {
      if (call <= 10) return fails()
      if (call <= 13) throw new TidegateError('wrong-use', 'not like this')
      return answer()
    }
    const { ask } = guarded(script)
    for (let at = 0; at < 10; at++) await ask()
    await vi.advanceTimersByTimeAsync(500)
    for (let at = 0; at < 3; at++) await expect(ask()).rejects.toThrow('not like this')
    expect((await ask()).degraded).toBe(null)
  })
})

describe('a stall of this process', () => {
  const fromOutside = promisify(randomBytes)

  it('does not cost the answer that came meanwhile', async () => {
    const script: Script = async (_call, answer) => {
      await fromOutside(16)
      return answer()
    }
    const { ask } = guarded(script, atOnce)
    for (let at = 0; at < 3; at++) {
      const calls = [ask(), ask(), ask()]
      stall(60)
      expect(reasons(await Promise.all(calls))).toEqual({ none: 3 })
    }
  })

  it('does not cost the answer to what was sent only after it', async () => {
    const script: Script = async (_call, answer) => {
      await turn()
      await turn()
      return answer()
    }
    const { ask } = guarded(script, atOnce)
    for (const forMs of [18, 22, 30, 60]) {
      const call = ask()
      stall(forMs)
      expect((await call).degraded).toBe(null)
    }
  })

  it('gives the store its time again, and then counts its silence', async () => {
    const script: Script = (call, answer) => (call <= 2 ? hangs() : answer())
    const { ask } = guarded(script, { ...atOnce, deadlineMs: 200 })
    const call = ask()
    stall(300)
    const stalledMs = performance.now()
    expect((await call).degraded).toEqual({ reason: 'timeout', mode: 'open' })
    expect(performance.now() - stalledMs).toBeGreaterThan(99)
    expect((await ask()).degraded).toEqual({ reason: 'timeout', mode: 'open' })
    expect((await ask()).degraded?.reason).toBe('breaker-open')
  })
})

/** Keeps the event loop from turning. */
function stall(forMs: number): void {
  const endMs = performance.now() + forMs
  while (performance.now() < endMs);
}
