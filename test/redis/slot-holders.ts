/**
 * A process whose callers hold slots for longer than their TTL by renewing them. Redis counts every
 * holder from the acquisition of its slot until just before its release.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { concurrency, createLimiter } from 'tidegate'
import { redisStore } from 'tidegate/redis'

export interface HoldersPlan {
  readonly url: string
  readonly limit: number
  readonly ttlMs: number
  readonly callers: number
  readonly holdMs: number
}

/** Sent after each released slot. */
export interface Held {
  /** The largest number of concurrent holders that this caller saw. */
  readonly holdersMost: number
  readonly renewals: number
  /** Renewals of a slot that had expired. */
  readonly lost: number
}

/** Renewals within the TTL. */
const RENEWALS_PER_TTL = 4

const plan: HoldersPlan = JSON.parse(process.argv[2] ?? '')
const client = new Redis(plan.url)
const limiter = createLimiter({
  limit: concurrency({ limit: plan.limit, ttl: `${plan.ttlMs}ms`, onStoreError: 'closed' }),
  store: redisStore(client),
})
process.on('disconnect', () => process.exit(0))
for (let caller = 0; caller < plan.callers; caller++) void call()
process.send?.('ready')

async function call(): Promise<void> {
  for (;;) {
    const slot = await limiter.acquire('key')
    if (!slot.allowed) {
      await sleep(20)
      continue
    }
    let holdersMost = await client.incr('holders')
    let [renewals, lost] = [0, 0]
    const endMs = performance.now() + plan.holdMs
    while (performance.now() < endMs && lost === 0) {
      await sleep(plan.ttlMs / RENEWALS_PER_TTL)
      const { allowed, degraded } = await slot.renew()
      renewals++
      if (!allowed && degraded === null) lost++
      holdersMost = Math.max(holdersMost, Number(await client.get('holders')))
    }
    await client.decr('holders')
    await slot.release()
    process.send?.({ holdersMost, renewals, lost } satisfies Held)
  }
}
