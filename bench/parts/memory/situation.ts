/** One situation of bench/memory.ts, in a process of its own. */

import { RateLimiterMemory } from 'rate-limiter-flexible'
import { createLimiter, slidingLog, tokenBucket } from 'tidegate'
import { type Contender, takeTurns } from '../../harness/rounds.ts'
import { loadThrottlerStorage } from '../../peers/nest-throttler.ts'

export interface MemoryPlan {
  readonly limit: number
  readonly keys: number
  /** Calls per key in one round. */
  readonly callsPerKey: number
  readonly rounds: number
  /** If set, compares sliding logs: ours, and the storage of @nestjs/throttler at this path. */
  readonly throttler?: string
}

export type MemoryMessage =
  | { readonly progress: string }
  | { readonly figures: Readonly<Record<string, readonly number[]>> }

const plan: MemoryPlan = JSON.parse(process.argv[2] ?? '')
const decisions = plan.keys * plan.callsPerKey
const keys = Array.from({ length: plan.keys }, (_, at) => `user:${at}`)
const keyAt = (call: number) => keys[call % keys.length] as string

const tell = (message: MemoryMessage) => process.send?.(message)
const peer = plan.throttler === undefined ? flexible(plan) : await throttler(plan, plan.throttler)
const contenders = [sync(plan), async(plan), evaluate(plan), peer, floor()]
const progress = (text: string) => void tell({ progress: text })
const figures = await takeTurns({ progress }, `limit ${plan.limit}`, contenders, plan.rounds)
tell({ figures: Object.fromEntries(figures) })
process.disconnect()

/** A new limiter in every round, so that each of them admits and denies the same calls. */
function newLimiter({ limit, throttler }: MemoryPlan) {
  const algorithm = throttler === undefined ? tokenBucket : slidingLog
  return createLimiter({ limit: algorithm({ limit, per: '1m' }) })
}

function sync(plan: MemoryPlan): Contender<number> {
  const run = () => {
    const limiter = newLimiter(plan)
    return timed(() => {
      for (let at = 0; at < decisions; at++) limiter.checkSync(keyAt(at))
    })
  }
  return { name: 'Tidegate checkSync', run }
}

function async(plan: MemoryPlan): Contender<number> {
  const run = () => {
    const limiter = newLimiter(plan)
    return timed(async () => {
      for (let at = 0; at < decisions; at++) await limiter.check(keyAt(at))
    })
  }
  return { name: 'Tidegate check', run }
}

/** The call of every middleware: the decision, and the limits that applied. */
function evaluate(plan: MemoryPlan): Contender<number> {
  const run = () => {
    const limiter = newLimiter(plan)
    return timed(async () => {
      for (let at = 0; at < decisions; at++) await limiter.evaluate(keyAt(at))
    })
  }
  return { name: 'Tidegate evaluate', run }
}

function flexible({ limit }: MemoryPlan): Contender<number> {
  const run = () => {
    const limiter = new RateLimiterMemory({ points: limit, duration: 60 })
    return timed(async () => {
      for (let at = 0; at < decisions; at++) {
        try {
          await limiter.consume(keyAt(at))
        } catch {
          // A rejection means that the call is denied.
        }
      }
    })
  }
  return { name: 'rate-limiter-flexible', run }
}

/** Without a block duration: a key over the limit is denied until a hit has left the window. */
async function throttler({ limit }: MemoryPlan, path: string): Promise<Contender<number>> {
  const Storage = await loadThrottlerStorage(path)
  const run = async () => {
    const storage = new Storage()
    const perSecond = await timed(async () => {
      for (let at = 0; at < decisions; at++) {
        await storage.increment(keyAt(at), 60_000, limit, 0, 'default')
      }
    })
    storage.onApplicationShutdown()
    return perSecond
  }
  return { name: '@nestjs/throttler', run }
}

/** Reading the clock and finding the key, and nothing else. */
function floor(): Contender<number> {
  const lastAt = new Map(keys.map((key) => [key, 0]))
  let newest = 0
  const run = () => {
    for (let at = 0; at < decisions; at++) {
      newest = Math.max(newest, Date.now() + (lastAt.get(keyAt(at)) ?? 0))
    }
  }
  return { name: 'the floor', run: () => timed(run) }
}

async function timed(run: () => void | Promise<void>): Promise<number> {
  const start = process.hrtime.bigint()
  await run()
  return (decisions * 1e9) / Number(process.hrtime.bigint() - start)
}
