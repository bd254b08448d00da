/**
 * Decisions per second on one Redis server, over 10,000 keys, at several numbers of calls in
 * flight: ours against rate-limiter-flexible's RateLimiterRedis on the same server and the same
 * kind of client, and against a bare pipelined INCR as what the client and the server can do at
 * most. Also the 99th percentile of the time of a call, and processor time, this process's and the
 * server's.
 */

import { Redis } from 'ioredis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { createLimiter, tokenBucket } from 'tidegate'
import { redisStore } from 'tidegate/redis'
import { startRedis } from '../test/servers/redis.ts'

const KEYS = 10_000
const CALLS = Number(process.env.CALLS ?? 60_000)
const ROUNDS = Number(process.env.ROUNDS ?? 5)

const keys = Array.from({ length: KEYS }, (_, at) => `user:${at}`)

interface Contender {
  readonly name: string
  call(key: string): Promise<unknown>
}

interface Round {
  readonly perSecond: number
  readonly p99Ms: number
  readonly cpuUs: number
}

const server = await startRedis()
const client = new Redis(server.url)
const limiter = createLimiter({
  limit: tokenBucket({ limit: 60_000, per: '1m' }),
  store: redisStore(client),
})
const flexible = new RateLimiterRedis({ storeClient: client, points: 60_000, duration: 60 })
const contenders: Contender[] = [
  { name: 'tidegate', call: (key) => limiter.check(key) },
  { name: 'rate-limiter-flexible', call: (key) => flexible.consume(key) },
  { name: 'bare INCR', call: (key) => client.incr(`incr:${key}`) },
]
const aims = new Map([
  [256, 4],
  [32, 1.5],
  [8, 1],
  [1, 0.95],
])

for (const [inFlight, aim] of aims) {
  const rounds = contenders.map((): Round[] => [])
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [at, contender] of contenders.entries()) {
      const calls = inFlight === 1 ? CALLS / 6 : CALLS
      const result = await run(contender, inFlight, calls)
      if (round > 0) rounds[at]?.push(result)
    }
  }
  report(inFlight, aim, rounds)
}
await client.quit()
await server.stop()

async function run({ call }: Contender, inFlight: number, calls: number): Promise<Round> {
  const times = new Float64Array(calls)
  let next = 0
  const worker = async () => {
    for (let at = next++; at < calls; at = next++) {
      const start = performance.now()
      await call(keys[at % KEYS] as string)
      times[at] = performance.now() - start
    }
  }
  const [ownBefore, serverBefore] = [process.cpuUsage(), await serverCpuUs()]
  const start = performance.now()
  await Promise.all(Array.from({ length: inFlight }, worker))
  const elapsedMs = performance.now() - start
  const own = process.cpuUsage(ownBefore)
  const cpuUs = own.user + own.system + (await serverCpuUs()) - serverBefore
  times.sort()
  const p99Ms = times[Math.floor(calls * 0.99)] as number
  return { perSecond: (calls * 1000) / elapsedMs, p99Ms, cpuUs: cpuUs / calls }
}

async function serverCpuUs(): Promise<number> {
  const info = await client.info('cpu')
  const seconds = (name: string) => Number(new RegExp(`${name}:([\\d.]+)`).exec(info)?.[1])
  return (seconds('used_cpu_sys') + seconds('used_cpu_user')) * 1e6
}

function report(inFlight: number, aim: number, rounds: readonly Round[][]): void {
  const of = (at: number, field: keyof Round) =>
    median((rounds[at] ?? []).map((round) => round[field]))
  console.log(`${inFlight} in flight`)
  for (const [at, { name }] of contenders.entries()) {
    const perSecond = Math.round(of(at, 'perSecond')).toLocaleString('en-US').padStart(9)
    const p99 = of(at, 'p99Ms').toFixed(2).padStart(6)
    const cpu = of(at, 'cpuUs').toFixed(1).padStart(5)
    console.log(`  ${name.padEnd(22)} ${perSecond} per second, p99 ${p99} ms, ${cpu} µs of CPU`)
  }
  const ratio = of(0, 'perSecond') / of(1, 'perSecond')
  const cpu = of(0, 'cpuUs') / of(1, 'cpuUs')
  const verdict = ratio >= aim ? 'met' : 'missed'
  console.log(`  ratio ${ratio.toFixed(2)}, aim ${aim}: ${verdict}; CPU ${cpu.toFixed(2)}\n`)
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}
