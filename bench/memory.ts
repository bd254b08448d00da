/**
 * Decisions per second in memory, over 10,000 keys: ours against rate-limiter-flexible's
 * RateLimiterMemory, which has no synchronous call. Three situations: nearly everything is denied
 * (10 per second, the first example in both READMEs), a mix (100 per second), and nothing is
 * denied.
 */

import { RateLimiterMemory } from 'rate-limiter-flexible'
import { createLimiter, tokenBucket } from 'tidegate'
import { type Contender, compare } from './parts/compare.ts'

const KEYS = 10_000
const DECISIONS = 1_000_000

const keys = Array.from({ length: KEYS }, (_, at) => `user:${at}`)
const keyAt = (call: number) => keys[call % KEYS] as string

const situations = [
  { title: '10 per second and key: a flood', limit: 10, promised: { sync: 5, async: 2 } },
  { title: '100 per second and key: a mix', limit: 100, promised: { sync: 5, async: 2 } },
  {
    title: '1,000,000 per second and key: all admitted',
    limit: 1e6,
    promised: { sync: 5, async: 2 },
  },
]

for (const { title, limit, promised } of situations) {
  const [peer, sync, async] = [
    flexible(limit),
    ours(limit, 'checkSync'),
    ours(limit, 'await check'),
  ]
  await compare({ title: `${title}, checkSync`, ours: sync, peer, ratioMin: promised.sync })
  await compare({ title: `${title}, await check`, ours: async, peer, ratioMin: promised.async })
}
process.exit(0)

function ours(limit: number, call: 'checkSync' | 'await check'): Contender {
  const limiter = createLimiter({ limit: tokenBucket({ limit, per: '1s' }) })
  const sync = () => {
    for (let at = 0; at < DECISIONS; at++) limiter.checkSync(keyAt(at))
  }
  const async = async () => {
    for (let at = 0; at < DECISIONS; at++) await limiter.check(keyAt(at))
  }
  return { name: `tidegate ${call}`, run: () => timed(call === 'checkSync' ? sync : async) }
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
