/** A master with idempotency keys dies, and a replica takes over: no key has a second owner. */

import { randomUUID } from 'node:crypto'
import { afterEach, describe, expect, test } from 'vitest'
import { redisIdempotencyStore } from '../../packages/tidegate/src/idempotency.ts'
import { type ConnectedClient, unhurriedClientKinds } from '../support/servers/clients.ts'
import { type RedisSentinel, startSentinel } from '../support/servers/sentinel.ts'
import { until } from '../support/servers/until.ts'

const KEYS = 50

/** So long that a stall of the machine is not a failover. */
const DOWN_AFTER_MS = 3_000

const kinds = unhurriedClientKinds.filter(({ name }) => name.endsWith('6'))

let group: RedisSentinel | undefined
let connected: ConnectedClient | undefined

afterEach(async () => {
  connected?.close()
  await group?.stop()
})

function newClaim() {
  const times = { leaseMs: 300_000, ttlMs: 600_000 }
  return { token: randomUUID(), fingerprint: 'a'.repeat(43), takesOver: true, ...times }
}

/**
 * Repeats a call until a replica confirms it, as its caller does: replicas of a stalled machine may
 * take longer than the store waits for them.
 */
async function confirmed<T>(call: () => T | Promise<T>): Promise<T> {
  const { result } = await until('a replica confirms', async () => ({ result: await call() }))
  return result
}

describe.each(kinds.map((kind) => [kind.name, kind] as const))('with %s', (_, kind) => {
  test('a confirmed claim and a confirmed result survive a failover', async () => {
    group = await startSentinel({ replicas: 2, sentinels: 3, downAfterMs: DOWN_AFTER_MS })
    connected = await kind.sentinel(group)
    const options = { durability: 'replicated', connectMs: 30_000, deadlineMs: 30_000 } as const
    const breaker = { openFirstMs: 50, openMs: 200 }
    const store = redisIdempotencyStore(connected.client, { ...options, breaker })
    const owned = new Map<string, ReturnType<typeof newClaim>>()
    await until('replicas confirm claims', async () => {
      const [key, claim] = [randomUUID(), newClaim()]
      const claimed = await Promise.resolve(store.claim(key, claim)).catch(() => undefined)
      if (claimed?.state === 'owned') owned.set(key, claim)
      return owned.size === KEYS
    })
    const [done, running] = [[...owned].slice(0, KEYS / 2), [...owned].slice(KEYS / 2)]
    for (const [key, claim] of done) {
      const isKept = await confirmed(() => store.complete(key, { ...claim, result: `of ${key}` }))
      expect(isKept).toBe(true)
    }
    const old = await group.master()
    old.kill('SIGKILL')
    await until('the next master answers', async () => {
      const claim = newClaim()
      const claimed = await Promise.resolve(store.claim(claim.token, claim)).catch(() => undefined)
      return claimed?.state === 'owned'
    })
    for (const [key] of done) {
      const claimed = await confirmed(() => store.claim(key, newClaim()))
      expect(claimed).toEqual({ state: 'done', result: `of ${key}` })
    }
    for (const [key, claim] of running) {
      const claimed = await confirmed(() => store.claim(key, newClaim()))
      expect(claimed).toMatchObject({ state: 'running' })
      const isKept = await confirmed(() => store.complete(key, { ...claim, result: 'late' }))
      expect(isKept).toBe(true)
      const again = await confirmed(() => store.claim(key, newClaim()))
      expect(again).toEqual({ state: 'done', result: 'late' })
    }
  })
})
