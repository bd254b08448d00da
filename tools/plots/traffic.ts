/**
 * One traffic pattern sent through every algorithm, on a fake clock: admitted and denied requests,
 * and the most of them within two seconds and within a period.
 */

import type { Limit } from '../../packages/tidegate/src/algorithms/limit.ts'
import { createLimiter } from '../../packages/tidegate/src/limiter/create-limiter.ts'
import {
  concurrency,
  fixedWindow,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../packages/tidegate/src/limits/limits.ts'

export const LIMIT = 10
export const PER_MS = 10_000
export const END_MS = 30_000

/** How long an admitted request is in flight, for the concurrency limit. */
export const FLIGHT_MS = 2_500

/** The time that a reader would call "at once". */
export const MOMENT_MS = 2_000

/** A multiple of the period, so that windows begin at 0, 10 and 20 s of the picture. */
const EPOCH_MS = 1_700_000_000_000

export interface Arrival {
  readonly atMs: number
  /** The column in the picture: requests of one burst are stacked. */
  readonly columnMs: number
}

export interface Mark extends Arrival {
  readonly admitted: boolean
}

export interface Run {
  readonly marks: readonly Mark[]
  /** How long an admitted request counts: the period, or its time in flight. */
  readonly countsForMs: number
}

export interface Subject {
  readonly file: string
  readonly title: string
  readonly promise: string
  readonly limit: Limit
  /** Whether its windows begin at fixed times. */
  readonly isAligned: boolean
}

const perPeriod = { limit: LIMIT, per: `${PER_MS}ms` } as const

export const subjects: readonly Subject[] = [
  {
    file: 'token-bucket',
    title: 'Token bucket',
    promise: 'A burst of 10 at once, then one more for each second that passes.',
    limit: tokenBucket(perPeriod),
    isAligned: false,
  },
  {
    file: 'sliding-window',
    title: 'Sliding window',
    promise: 'The burst weighs less as its window slides away. Two counters per key.',
    limit: slidingWindow(perPeriod),
    isAligned: true,
  },
  {
    file: 'sliding-log',
    title: 'Sliding log',
    promise: 'Never more than 10 in any 10 seconds. It remembers every admitted request.',
    limit: slidingLog(perPeriod),
    isAligned: false,
  },
  {
    file: 'fixed-window',
    title: 'Fixed window',
    promise: 'At most 10 in each window. Two bursts across a boundary both pass.',
    limit: fixedWindow(perPeriod),
    isAligned: true,
  },
  {
    file: 'concurrency',
    title: 'Concurrency',
    promise: `Counts what is in flight, not the rate. A request takes ${FLIGHT_MS / 1000} s here.`,
    limit: concurrency({ limit: LIMIT, ttl: '1m' }),
    isAligned: false,
  },
]

/** A burst of 15 before the boundary at 10 s, one of 15 after it, then one request every 800 ms. */
export function traffic(): Arrival[] {
  const arrivals = [...burst(9_200), ...burst(10_200)]
  for (let atMs = 12_000; atMs < END_MS; atMs += 800) arrivals.push({ atMs, columnMs: atMs })
  return arrivals
}

/** Sends the traffic through one limit. */
export async function run({ limit }: Subject): Promise<Run> {
  let nowMs = 0
  const clock = { now: () => EPOCH_MS + nowMs, schedule: () => () => undefined }
  const limiter = createLimiter({ limit, clock })
  const isSlots = limit.algorithm === 'concurrency'
  const inFlight: { readonly endsMs: number; release(): Promise<void> }[] = []
  const admits = async () => {
    if (!isSlots) return limiter.checkSync('client').allowed
    while ((inFlight[0]?.endsMs ?? Infinity) <= nowMs) await inFlight.shift()?.release()
    const slot = await limiter.acquire('client')
    if (slot.allowed) inFlight.push({ endsMs: nowMs + FLIGHT_MS, release: slot.release })
    return slot.allowed
  }
  const marks: Mark[] = []
  for (const arrival of traffic()) {
    nowMs = arrival.atMs
    marks.push({ ...arrival, admitted: await admits() })
  }
  return { marks, countsForMs: isSlots ? FLIGHT_MS : PER_MS }
}

/** The largest number of requests admitted within any span of that length. */
export function mostWithin({ marks }: Run, durationMs: number): number {
  const admitted = marks.filter((mark) => mark.admitted)
  const counts = admitted.map(
    ({ atMs }) => admitted.filter((one) => one.atMs <= atMs && one.atMs > atMs - durationMs).length,
  )
  return Math.max(0, ...counts)
}

export interface Level {
  readonly atMs: number
  readonly count: number
}

/** The number of admitted requests that count, at each time of a change. */
export function levels({ marks, countsForMs }: Run): Level[] {
  const steps = marks
    .filter(({ admitted }) => admitted)
    .flatMap(({ atMs }) => [
      { atMs, change: 1 },
      { atMs: atMs + countsForMs, change: -1 },
    ])
    .sort((a, b) => a.atMs - b.atMs || a.change - b.change)
  let count = 0
  return steps
    .map(({ atMs, change }) => {
      count += change
      return { atMs, count }
    })
    .filter(({ atMs }) => atMs < END_MS)
}

/** 15 requests within 0.56 s. */
function burst(fromMs: number): Arrival[] {
  const columnMs = fromMs + 280
  return Array.from({ length: 15 }, (_, at) => ({ atMs: fromMs + at * 40, columnMs }))
}
