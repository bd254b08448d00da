/**
 * The memory of keys in a process. Each contender has a process of its own, with a garbage
 * collection before every measurement.
 */

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { MemoryStore } from 'express-rate-limit'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import {
  createLimiter,
  fixedWindow,
  type Limit,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from 'tidegate'

export interface KeysWeight {
  readonly keys: number
  /** Bytes in use beyond those without keys. */
  readonly bytes: number
}

export interface ProcessWeight {
  readonly weights: readonly KeysWeight[]
  /** Resident memory of the process at the end, and its growth since the start. */
  readonly residentBytes: number
  readonly residentMoreBytes: number
}

type Ask = (key: string) => unknown

const DAY_S = 86_400

/** A unit of a bucket takes hours to drain, so that no key is forgotten meanwhile. */
const weighed = { limit: 10, per: '1d' } as const

const contenders: Readonly<Record<string, () => Ask>> = {
  'Tidegate, tokenBucket': () => ours(tokenBucket(weighed)),
  'Tidegate, slidingWindow': () => ours(slidingWindow(weighed)),
  'Tidegate, fixedWindow': () => ours(fixedWindow(weighed)),
  'Tidegate, slidingLog': () => ours(slidingLog(weighed)),
  'rate-limiter-flexible': () => {
    const limiter = new RateLimiterMemory({ points: 10, duration: DAY_S })
    return (key) => limiter.consume(key)
  },
  'express-rate-limit': () => {
    const store = new MemoryStore()
    store.init({ windowMs: DAY_S * 1_000 } as Parameters<typeof store.init>[0])
    return (key) => store.increment(key)
  },
}

export const processContenders = Object.keys(contenders)

/** The young generation has its default size, as in production. */
export async function weighInProcess(
  contender: string,
  sizes: readonly number[],
): Promise<ProcessWeight> {
  const argv = ['--expose-gc', import.meta.filename, contender, JSON.stringify(sizes)]
  const { stdout } = await promisify(execFile)(process.execPath, argv)
  return JSON.parse(stdout)
}

if (process.argv[1] === import.meta.filename) {
  const [, , contender = '', sizes = '[]'] = process.argv
  console.log(JSON.stringify(await weigh(contender, JSON.parse(sizes))))
  // Some contenders keep timers that hold the process open.
  process.exit()
}

function ours(limit: Limit): Ask {
  const limiter = createLimiter({ limit })
  return (key) => limiter.checkSync(key)
}

async function weigh(contender: string, sizes: readonly number[]): Promise<ProcessWeight> {
  const ask = contenders[contender]?.()
  if (ask === undefined) throw new Error(`unknown: ${contender}`)
  await ask('first')
  const before = inUseBytes()
  const residentBefore = process.memoryUsage.rss()
  const weights: KeysWeight[] = []
  let filled = 0
  for (const keys of sizes) {
    for (; filled < keys; filled++) await ask(`user:${filled}`)
    weights.push({ keys, bytes: inUseBytes() - before })
  }
  const residentBytes = process.memoryUsage.rss()
  return { weights, residentBytes, residentMoreBytes: residentBytes - residentBefore }
}

/** Bytes of objects and of memory outside the heap, such as typed arrays of counters. */
function inUseBytes(): number {
  globalThis.gc?.()
  globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
