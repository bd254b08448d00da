/**
 * Hot keys on one Redis server, from several processes that ask as fast as they can: decisions per
 * second of ours and of rate-limiter-flexible's RateLimiterRedis, taking turns, and commands of
 * Redis per decision. Also whether a budget is spent to the end by eight processes and never
 * exceeded, what a flood of one key does to the others on the same server, what memory a million
 * keys take, and how far off synced limits are. With a word as argument, such as Zipf, Budget,
 * Neighbour, ManyKeys or Synced, only what has that word in its name.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { createLimiter, tokenBucket } from 'tidegate'
import { redisStore } from 'tidegate/redis'
import { memoryOfKeys } from '../test/redis/hot-memory.ts'
import type { HotPlan, HotRound } from '../test/redis/hot-worker.ts'
import {
  admittedBySecond,
  type HotWorkers,
  startHotWorkers,
  sumOf,
} from '../test/redis/hot-workers.ts'
import { startRedis } from '../test/servers/redis.ts'

const ROUNDS = Number(process.env.ROUNDS ?? 3)
const BUDGET_SECONDS = Number(process.env.SECONDS ?? 30)

const HOUR_MS = 3_600_000

interface Situation {
  readonly title: string
  readonly plan: Pick<HotPlan, 'algorithm' | 'limit' | 'perMs'>
  readonly round: Partial<HotRound>
  readonly processes: number
  /** Ours at least so many times the peer, and at most so many commands per decision. */
  readonly ratioMin: number
  readonly commandsMax: number
}

const situations: readonly Situation[] = [
  {
    title: 'one key, under its limit, 4 processes',
    plan: { algorithm: 'tokenBucket', limit: 1_000_000_000, perMs: 1_000 },
    round: {},
    processes: 4,
    ratioMin: 10,
    commandsMax: 0.01,
  },
  {
    title: 'one key, exhausted, 4 processes',
    plan: { algorithm: 'fixedWindow', limit: 100, perMs: 24 * HOUR_MS },
    round: {},
    processes: 4,
    ratioMin: 10,
    commandsMax: 0.001,
  },
  {
    title: 'Zipf (1.1) over 100,000 keys, 256 in flight in one process',
    plan: { algorithm: 'tokenBucket', limit: 1_000_000, perMs: 1_000 },
    // Long enough that the hot keys, which are found anew in each round, do not matter.
    round: { keys: 100_000, isZipf: true, inFlight: 256, durationMs: 4_000 },
    processes: 1,
    ratioMin: 5,
    commandsMax: 1,
  },
]

const server = await startRedis()
const client = new Redis(server.url)
const [word] = process.argv.slice(2)
for (const situation of situations) {
  if (situation.title.includes(word ?? '')) await compareSituation(situation)
}
const measurements = { measureBudget, measureNeighbour, measureManyKeys, measureSynced }
for (const [name, measure] of Object.entries(measurements)) {
  if (word === undefined || name.includes(word)) await measure()
}
await client.quit()
await server.stop()

async function compareSituation(situation: Situation): Promise<void> {
  const { title, plan, round, processes } = situation
  const start = (library: HotPlan['library']) =>
    startHotWorkers(processes, { ...plan, library, url: server.url })
  const [ours, peer] = await Promise.all([start('tidegate'), start('rate-limiter-flexible')])
  const results: { ours: number; peer: number; commands: number }[] = []
  for (let turn = 0; turn <= ROUNDS; turn++) {
    const before = await scriptCalls()
    const own = await perSecond(ours, round)
    const commands = ((await scriptCalls()) - before) / own.made
    const other = await perSecond(peer, round)
    if (turn > 0) results.push({ ours: own.perSecond, peer: other.perSecond, commands })
  }
  await Promise.all([ours.stop(), peer.stop()])
  const of = (name: 'ours' | 'peer' | 'commands') => median(results.map((result) => result[name]))
  const ratio = of('ours') / of('peer')
  console.log(title)
  console.log(`  tidegate               ${count(of('ours'))} decisions per second`)
  console.log(`  rate-limiter-flexible  ${count(of('peer'))} decisions per second`)
  console.log(`  ratio ${ratio.toFixed(1)}, ${verdict(ratio >= situation.ratioMin)}`)
  const share = of('commands')
  const isFew = share <= situation.commandsMax
  console.log(`  ${(share * 100).toFixed(4)} commands per 100 decisions, ${verdict(isFew)}\n`)
}

async function measureBudget(): Promise<void> {
  const plan = { algorithm: 'tokenBucket', limit: 1_000, perMs: 1_000 } as const
  const workers = await startHotWorkers(8, { ...plan, library: 'tidegate', url: server.url })
  // The seconds at the ends are not whole, and in the first the full bucket is spent.
  const durationMs = (BUDGET_SECONDS + 4) * 1_000
  const results = await workers.run({ durationMs, inFlight: 4, bySecond: true })
  await workers.stop()
  const seconds = admittedBySecond(results).slice(3, 3 + BUDGET_SECONDS)
  const mean = seconds.reduce((sum, admitted) => sum + admitted, 0) / BUDGET_SECONDS
  const range = `${Math.min(...seconds)} to ${Math.max(...seconds)} in each`
  // What is admitted at the edge of a second may be counted in the next.
  const isMet = mean >= 990 && mean <= 1_001
  console.log('eight processes, a budget of 1,000 per second')
  console.log(`  ${mean.toFixed(1)} admitted per second over ${seconds.length} s, ${range}`)
  console.log(`  ${(mean / 10).toFixed(2)} %, ${verdict(isMet)}\n`)
}

/** Another key on the same server, with and without a flood. */
async function measureNeighbour(): Promise<void> {
  const limiter = createLimiter({
    limit: tokenBucket({ limit: 1_000_000, per: '1s', accuracy: 'exact' }),
    store: redisStore(client, { prefix: 'neighbour' }),
    deadlineMs: 1_000,
  })
  const plan = { algorithm: 'tokenBucket', limit: 1_000_000_000, perMs: 1_000 } as const
  const flood = await startHotWorkers(1, { ...plan, library: 'tidegate', url: server.url })
  const quiet: number[] = []
  const flooded: number[] = []
  for (let turn = 0; turn < ROUNDS; turn++) {
    quiet.push(await p99Ms(limiter, 1_000))
    const flooding = flood.run({ durationMs: 1_500 })
    flooded.push(await p99Ms(limiter, 1_000))
    await flooding
  }
  await flood.stop()
  const ratio = median(flooded) / median(quiet)
  console.log('another key on the same server, 200 calls per second, p99')
  console.log(
    `  ${median(quiet).toFixed(2)} ms alone, ${median(flooded).toFixed(2)} ms beside a flood`,
  )
  console.log(`  ratio ${ratio.toFixed(2)}, ${verdict(ratio <= 2)} (both share two cores here)\n`)
}

async function p99Ms(limiter: { check(key: string): Promise<unknown> }, durationMs: number) {
  const times: number[] = []
  const endMs = performance.now() + durationMs
  while (performance.now() < endMs) {
    const startMs = performance.now()
    await limiter.check('neighbour')
    times.push(performance.now() - startMs)
    await sleep(5)
  }
  times.sort((one, other) => one - other)
  return times[Math.floor(times.length * 0.99)] ?? 0
}

async function measureManyKeys(): Promise<void> {
  await client.flushall()
  const memory = await memoryOfKeys(server.url, 1_000_000)
  const inMb = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MB`
  const { heapBytes, residentBytes, residentFromIdleBytes, seconds, hottest } = memory
  console.log(`one million distinct keys in one process, in ${seconds.toFixed(1)} s`)
  console.log(`  in use after garbage collection ${inMb(heapBytes)} more`)
  console.log(`  the process ${inMb(residentBytes)} more than with as many calls for few keys,`)
  console.log(
    `  ${verdict(residentBytes <= 50 * 2 ** 20)}; ${inMb(residentFromIdleBytes)} from idle`,
  )
  console.log(`  the hottest key is found: ${verdict(hottest === 'hot')}\n`)
}

/** What four processes admit beyond a limit that they count by themselves. */
async function measureSynced(): Promise<void> {
  console.log("accuracy: 'synced', four processes, 1,000 per second in fixed windows")
  for (const inFlight of [2, 12]) {
    const plan = { algorithm: 'fixedWindow', limit: 1_000, perMs: 1_000 } as const
    const synced = { ...plan, library: 'tidegate', accuracy: 'synced', url: server.url } as const
    const workers = await startHotWorkers(4, synced)
    await workers.run({ durationMs: 2_000, inFlight, pauseMs: 4 })
    await sleep(1_000 - (Date.now() % 1_000))
    // Six windows, and not into the seventh.
    const { made, admitted } = sumOf(await workers.run({ durationMs: 5_800, inFlight, pauseMs: 4 }))
    await workers.stop()
    const asked = Math.round(made / 5.8).toLocaleString('en-US')
    const beyond = ((admitted / 6_000 - 1) * 100).toFixed(1)
    console.log(`  ${asked} asked for per second: ${beyond} % more than the limit`)
  }
  console.log()
}

async function perSecond(workers: HotWorkers, round: Partial<HotRound>) {
  const startMs = performance.now()
  const { made } = sumOf(await workers.run(round))
  return { made, perSecond: (made * 1_000) / (performance.now() - startMs) }
}

async function scriptCalls(): Promise<number> {
  const stats = await client.info('commandstats')
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
}

function count(value: number): string {
  return Math.round(value).toLocaleString('en-US').padStart(11)
}

function verdict(isMet: boolean): string {
  return isMet ? 'met' : 'missed'
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}
