/**
 * The same outage for several limiters: Redis is killed and started again, then stopped and
 * continued. Each limiter is a process of its own with 200 requests a second, on the same server at
 * the same time. What is told is how long a request had to wait for its answer.
 *
 * All of them are to go on without Redis: ours by `onStoreError: 'open'`, which is the default,
 * rate-limiter-flexible by its insurance limiter, express-rate-limit by `passOnStoreError`. The
 * client is ioredis with its default options, unless the row says otherwise. rate-limit-redis is
 * not installed here; express-rate-limit has a store of the same kind instead.
 */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as last } from 'node:timers/promises'
import { machineNowMs } from '../test/faults/machine-clock.ts'
import { type RedisServer, startRedis } from '../test/servers/redis.ts'
import type { Answer } from './parts/outage-contender.ts'

const names = [
  'express-rate-limit',
  'rate-limiter-flexible',
  'rate-limiter-flexible, no offline queue',
  'tidegate',
  'tidegate, recommended options',
]

const OUTAGE_MS = Number(process.env.OUTAGE_MS ?? 12_000)
const AFTER_MS = Number(process.env.AFTER_MS ?? 10_000)
const WARM_UP_MS = 2_000
const ON_TIME_MS = 15

interface Outage {
  readonly title: string
  readonly startedMs: number
  readonly endedMs: number
  readonly watchedUntilMs: number
}

const redis = await startRedis()
const contenders = await Promise.all(names.map((name) => start(name, redis)))
await last(WARM_UP_MS)
const killed = await outage(
  'Redis killed',
  () => redis.kill('SIGKILL'),
  () => redis.restart(),
)
const stopped = await outage(
  'Redis stopped',
  () => redis.kill('SIGSTOP'),
  async () => redis.kill('SIGCONT'),
)
const answers = await Promise.all(contenders.map(({ child }) => answersOf(child)))
for (const each of [killed, stopped]) report(each, answers)
for (const { child } of contenders) child.disconnect()
await redis.stop()

async function start(name: string, { url }: RedisServer) {
  const child = fork(new URL('./parts/outage-contender.ts', import.meta.url), [name, url])
  await once(child, 'message')
  return { child }
}

async function outage(title: string, begin: () => void, end: () => Promise<void>): Promise<Outage> {
  const startedMs = machineNowMs()
  begin()
  await last(OUTAGE_MS)
  await end()
  const endedMs = machineNowMs()
  await last(AFTER_MS)
  return { title, startedMs, endedMs, watchedUntilMs: machineNowMs() }
}

async function answersOf(child: ChildProcess): Promise<Answer[]> {
  child.send('report')
  const [answers] = (await once(child, 'message')) as [Answer[]]
  return answers
}

function report(outage: Outage, all: readonly Answer[][]): void {
  const seconds = (OUTAGE_MS / 1000).toFixed(0)
  console.log(`${outage.title} for ${seconds} s`)
  const heading = ['', 'first answer', 'longest wait', `within ${ON_TIME_MS} ms`, 'shared again']
  console.log(line(heading))
  for (const [at, name] of names.entries())
    console.log(line([name, ...cells(outage, all[at] ?? [])]))
  console.log()
}

function cells({ startedMs, endedMs, watchedUntilMs }: Outage, all: readonly Answer[]): string[] {
  const meanwhile = all.filter((each) => each.startedMs >= startedMs && each.startedMs < endedMs)
  const firstMs = Math.min(...meanwhile.map(({ answeredMs = watchedUntilMs }) => answeredMs))
  const waitedMs = meanwhile.map((each) => (each.answeredMs ?? watchedUntilMs) - each.startedMs)
  const onTime = waitedMs.filter((ms) => ms <= ON_TIME_MS).length / meanwhile.length
  const next = all.find((each) => each.startedMs >= endedMs && each.isShared)
  const isEndless = meanwhile.some(({ answeredMs }) => answeredMs === undefined)
  const longest = duration(Math.max(...waitedMs))
  return [
    duration(firstMs - startedMs),
    isEndless ? `> ${longest}` : longest,
    `${(100 * onTime).toFixed(1)} %`,
    next === undefined ? 'not seen' : duration((next.answeredMs ?? watchedUntilMs) - endedMs),
  ]
}

function duration(ms: number): string {
  return ms < 1000 ? `${ms.toFixed(1)} ms` : `${(ms / 1000).toFixed(2)} s`
}

function line([first = '', ...rest]: readonly string[]): string {
  return `  ${first.padEnd(40)} ${rest.map((cell) => cell.padStart(13)).join(' ')}`
}
