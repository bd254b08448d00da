/**
 * Decisions per second in memory, over 10,000 keys: ours against rate-limiter-flexible's
 * RateLimiterMemory, which has no synchronous call. Three situations: nearly everything is denied
 * (10 per second, the first example in both READMEs), a mix (100 per second), and nothing is
 * denied. Each runs in a process of its own, as an application would.
 *
 * The floor is what no limiter can do without, reading the clock and finding the key: where nothing
 * is denied, that alone is most of a decision.
 */

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { createLimiter, tokenBucket } from 'tidegate'
import { type Contender, compare } from './parts/compare.ts'

const KEYS = 10_000
const DECISIONS = 1_000_000

const keys = Array.from({ length: KEYS }, (_, at) => `user:${at}`)
const keyAt = (call: number) => keys[call % KEYS] as string

const situations = [
  { title: '10 per second and key: a flood', limit: 10 },
  { title: '100 per second and key: a mix', limit: 100 },
  { title: '1,000,000 per second and key: all admitted', limit: 1_000_000 },
]

const situation = situations[Number(process.argv[2])]
if (situation === undefined) {
  for (const at of situations.keys()) await once(fork(import.meta.filename, [String(at)]), 'exit')
} else {
  const { title, limit } = situation
  const peer = flexible(limit)
  await compare({ title: `${title}, checkSync`, ours: sync(limit), peer, ratioMin: 5 })
  await compare({ title: `${title}, await check`, ours: async(limit), peer, ratioMin: 2 })
  await compare({ title: `${title}, the floor`, ours: floor(), peer })
  process.exit(0)
}

function sync(limit: number): Contender {
  const limiter = createLimiter({ limit: tokenBucket({ limit, per: '1s' }) })
  const run = () => {
    for (let at = 0; at < DECISIONS; at++) limiter.checkSync(keyAt(at))
  }
  return { name: 'tidegate checkSync', run: () => timed(run) }
}

function async(limit: number): Contender {
  const limiter = createLimiter({ limit: tokenBucket({ limit, per: '1s' }) })
  const run = async () => {
    for (let at = 0; at < DECISIONS; at++) await limiter.check(keyAt(at))
  }
  return { name: 'tidegate await check', run: () => timed(run) }
}

function floor(): Contender {
  const lastAt = new Map(keys.map((key) => [key, 0]))
  let newest = 0
  const run = () => {
    for (let at = 0; at < DECISIONS; at++) {
      newest = Math.max(newest, Date.now() + (lastAt.get(keyAt(at)) ?? 0))
    }
  }
  return { name: 'Date.now() and Map.get() alone', run: () => timed(run) }
}

function flexible(points: number): Contender {
  const limiter = new RateLimiterMemory({ points, duration: 1 })
  const run = async () => {
    for (let at = 0; at < DECISIONS; at++) {
      try {
        await limiter.consume(keyAt(at))
      } catch {
        // Denied: this is how it tells.
      }
    }
  }
  return { name: 'rate-limiter-flexible await consume', run: () => timed(run) }
}

async function timed(run: () => void | Promise<void>): Promise<number> {
  const start = process.hrtime.bigint()
  await run()
  return (DECISIONS * 1e9) / Number(process.hrtime.bigint() - start)
}
