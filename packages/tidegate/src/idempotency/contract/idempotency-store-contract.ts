/**
 * The contract of a store for idempotency keys as tests. Every store passes it unchanged; a store
 * of your own should, too. Leases end by the clock that is handed to the store.
 */

import { beforeEach, describe, expect, it } from 'vitest'
import { type Clock, type ManualClock, manualClock } from '../../clock.ts'
import { randomUUID } from '../../runtime.ts'
import type { MaybePromise } from '../../stores/store.ts'
import type { Claim, IdempotencyStore } from '../stores/idempotency-store.ts'

/** Makes a store that takes its time from the clock. */
export type MakeIdempotencyStore = (clock: Clock) => MaybePromise<IdempotencyStore>

const LEASE_MS = 10_000
const TTL_MS = 60_000

const print = (letter: string) => letter.repeat(43)
const A = print('a')
const B = print('b')

interface Bench {
  readonly store: IdempotencyStore
  readonly clock: ManualClock
  readonly key: string
  claim(claim?: Partial<Claim>): ReturnType<IdempotencyStore['claim']>
  complete(token: string, result: string): ReturnType<IdempotencyStore['complete']>
}

export function idempotencyStoreContract(make: MakeIdempotencyStore): void {
  describe('idempotency store contract', () => {
    let bench: Bench

    beforeEach(async () => {
      const clock = manualClock()
      const store = await make(clock)
      const key = randomUUID()
      bench = {
        store,
        clock,
        key,
        claim: (claim) =>
          store.claim(key, {
            ...{ token: randomUUID(), fingerprint: A, takesOver: true },
            ...{ leaseMs: LEASE_MS, ttlMs: TTL_MS, ...claim },
          }),
        complete: (token, result) =>
          store.complete(key, { token, fingerprint: A, result, ttlMs: TTL_MS }),
      }
    })

    describe('a claim', () => claimsAreExclusive(() => bench))
    describe('a result', () => resultsAreFenced(() => bench))
    describe('a lease', () => leasesEnd(() => bench))
    describe('a released key', () => keysAreGivenBack(() => bench))
    describe('for operators, a key', () => keysAreShown(() => bench))
  })
}

function claimsAreExclusive(bench: () => Bench): void {
  it('is granted to one of a hundred', async () => {
    const { claim } = bench()
    const results = await Promise.all(Array.from({ length: 100 }, () => claim()))
    const count = (state: string) => results.filter((one) => one.state === state).length
    expect([count('owned'), count('running')]).toEqual([1, 99])
  })

  it('reports the rest of the lease to others', async () => {
    const { claim, clock } = bench()
    expect(await claim()).toEqual({ state: 'owned', isRetry: false })
    clock.advance(3_000)
    expect(await claim()).toEqual({ state: 'running', leaseLeftMs: 7_000 })
  })

  it('of another request is refused while it runs, and when it is done', async () => {
    const { claim, complete } = bench()
    const token = randomUUID()
    await claim({ token })
    expect(await claim({ fingerprint: B })).toEqual({ state: 'other-request' })
    await complete(token, 'result')
    expect(await claim({ fingerprint: B })).toEqual({ state: 'other-request' })
  })

  it('without a token only looks', async () => {
    const { claim } = bench()
    expect(await claim({ token: '' })).toEqual({ state: 'free' })
    expect(await claim()).toMatchObject({ state: 'owned' })
    expect(await claim({ token: '' })).toMatchObject({ state: 'running' })
  })

  it('of another key is free', async () => {
    const { store, claim } = bench()
    await claim()
    const other = { token: randomUUID(), fingerprint: A, takesOver: true }
    const times = { leaseMs: LEASE_MS, ttlMs: TTL_MS }
    expect(await store.claim(randomUUID(), { ...other, ...times })).toMatchObject({
      state: 'owned',
    })
  })
}

function resultsAreFenced(bench: () => Bench): void {
  it('is returned as it was stored, also if it is large or not ASCII', async () => {
    const { claim, complete } = bench()
    const token = randomUUID()
    const result = `u{"s":200}\n\u0000é漢字\u{1f600}${'x'.repeat(300_000)}\r\n`
    await claim({ token })
    expect(await complete(token, result)).toBe(true)
    expect(await claim()).toEqual({ state: 'done', result })
  })

  it('of an owner that was replaced is refused', async () => {
    const { claim, complete, clock } = bench()
    const [late, next] = [randomUUID(), randomUUID()]
    await claim({ token: late })
    clock.advance(LEASE_MS)
    expect(await claim({ token: next })).toEqual({ state: 'owned', isRetry: true })
    expect(await complete(late, 'late')).toBe(false)
    expect(await complete(next, 'next')).toBe(true)
    expect(await complete(late, 'late')).toBe(false)
    expect(await claim()).toEqual({ state: 'done', result: 'next' })
  })

  it('can be stored twice by the same owner, and stays the first', async () => {
    const { claim, complete } = bench()
    const token = randomUUID()
    await claim({ token })
    expect(await complete(token, 'first')).toBe(true)
    expect(await complete(token, 'second')).toBe(true)
    expect(await claim()).toEqual({ state: 'done', result: 'first' })
  })

  it('is stored if the record was lost', async () => {
    const { claim, complete } = bench()
    expect(await complete(randomUUID(), 'result')).toBe(true)
    expect(await claim()).toEqual({ state: 'done', result: 'result' })
  })
}

function leasesEnd(bench: () => Bench): void {
  it('ends exactly, and one of many takes over', async () => {
    const { claim, clock } = bench()
    await claim()
    clock.advance(LEASE_MS - 1)
    expect(await claim()).toEqual({ state: 'running', leaseLeftMs: 1 })
    clock.advance(1)
    const results = await Promise.all(Array.from({ length: 20 }, () => claim()))
    expect(results.filter(({ state }) => state === 'owned')).toEqual([
      { state: 'owned', isRetry: true },
    ])
  })

  it('is prolonged by its owner only', async () => {
    const { store, claim, clock, key } = bench()
    const token = randomUUID()
    await claim({ token })
    clock.advance(LEASE_MS - 1)
    const renewal = { leaseMs: LEASE_MS, ttlMs: TTL_MS }
    expect(await store.renew(key, { token: randomUUID(), ...renewal })).toBe(false)
    expect(await store.renew(key, { token, ...renewal })).toBe(true)
    clock.advance(LEASE_MS - 1)
    expect(await claim()).toMatchObject({ state: 'running' })
  })

  it('that has ended without a result is unknown to a claim that does not take over', async () => {
    const { claim, clock } = bench()
    await claim()
    clock.advance(LEASE_MS)
    expect(await claim({ takesOver: false })).toEqual({ state: 'unknown' })
    expect(await claim({ takesOver: true })).toEqual({ state: 'owned', isRetry: true })
  })
}

function keysAreGivenBack(bench: () => Bench): void {
  it.each([
    ['unused', A, { state: 'owned', isRetry: false }],
    ['unused', B, { state: 'owned', isRetry: false }],
    ['retry', A, { state: 'owned', isRetry: true }],
    ['retry', B, { state: 'other-request' }],
    ['unknown', A, { state: 'unknown' }],
  ] as const)('as %s is then claimed by %.1s with %o', async (remains, fingerprint, expected) => {
    const { store, claim, key } = bench()
    const token = randomUUID()
    await claim({ token })
    expect(await store.release(key, { token, remains, ttlMs: TTL_MS })).toBe(true)
    expect(await claim({ fingerprint, takesOver: false })).toEqual(expected)
  })

  it('is given back by its owner only, and not with a result', async () => {
    const { store, claim, complete, key } = bench()
    const token = randomUUID()
    const release = { remains: 'unused', ttlMs: TTL_MS } as const
    await claim({ token })
    expect(await store.release(key, { token: randomUUID(), ...release })).toBe(false)
    await complete(token, 'result')
    expect(await store.release(key, { token, ...release })).toBe(false)
    expect(await claim()).toEqual({ state: 'done', result: 'result' })
  })
}

function keysAreShown(bench: () => Bench): void {
  const stateOf = async ({ store, key }: Bench) => (await store.look(key))?.state

  it('is shown as running with its lease, as done with its size, and then forgotten', async () => {
    const { store, key, claim, complete, clock } = bench()
    const token = randomUUID()
    expect(await store.look(key)).toBe(undefined)
    expect(await store.forget(key)).toBe(false)
    await claim({ token })
    clock.advance(3_000)
    const running = { state: 'running', leaseLeftMs: LEASE_MS - 3_000, resultBytes: 0 }
    expect(await store.look(key)).toMatchObject(running)
    await complete(token, 'caf\u00e9')
    const shown = await store.look(key)
    expect(shown).toMatchObject({ state: 'done', leaseLeftMs: 0, resultBytes: 5 })
    expect(shown?.expiresInMs).toBeGreaterThan(TTL_MS - 10_000)
    expect(shown?.expiresInMs).toBeLessThanOrEqual(TTL_MS)
    expect(await store.forget(key)).toBe(true)
    expect(await claim()).toEqual({ state: 'owned', isRetry: false })
  })

  it('is shown as released, or as lost when its lease has ended', async () => {
    const { store, key, claim, clock } = bench()
    const token = randomUUID()
    await claim({ token })
    await store.release(key, { token, remains: 'retry', ttlMs: TTL_MS })
    expect(await stateOf(bench())).toBe('released')
    await claim({ token })
    clock.advance(LEASE_MS)
    expect(await stateOf(bench())).toBe('lost')
  })
}
