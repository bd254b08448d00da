import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { SlowClients } from './slow-clients.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
afterEach(() => void vi.useRealTimers())

const minute = 60_000
const timeouts = { headers: minute, request: minute, keepAlive: minute, send: minute }

describe('the interval of checks', () => {
  it.each([
    ['is an eighth of the shortest timeout', { send: 800 }, 100],
    ['is an eighth of the shortest timeout, whichever it is', { headers: 800, send: 1_600 }, 100],
    ['is a second at most', {}, 1_000],
    ['is 10 ms at least', { keepAlive: 10 }, 10],
  ])('%s', (_name, changed, intervalMs) => {
    const slowClients = new SlowClients({ ...timeouts, ...changed })
    const check = vi.fn()
    slowClients.watch(check)
    vi.advanceTimersByTime(intervalMs - 1)
    expect(check).not.toHaveBeenCalled()
    vi.advanceTimersByTime(1)
    expect(check).toHaveBeenCalledTimes(1)
    vi.advanceTimersByTime(intervalMs * 3)
    expect(check).toHaveBeenCalledTimes(4)
  })
})

describe('the timer', () => {
  it('runs only while something is watched', () => {
    const slowClients = new SlowClients(timeouts)
    const check = vi.fn()
    expect(vi.getTimerCount()).toBe(0)
    slowClients.watch(check)
    expect(vi.getTimerCount()).toBe(1)
    slowClients.forget(check)
    vi.advanceTimersByTime(1_000)
    expect(vi.getTimerCount()).toBe(0)
    slowClients.watch(check)
    vi.advanceTimersByTime(1_000)
    expect(check).toHaveBeenCalledTimes(1)
  })
})
