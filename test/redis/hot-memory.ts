/**
 * A process that asks for many keys, each once, and for one again and again; it tells what memory
 * that took. Started by `memoryOfKeys`.
 *
 * Before, it has asked as much for keys that it knows, because the space for young objects, which
 * V8 lets grow under any load, is no matter of keys.
 */

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import { createLimiter, tokenBucket } from '../../packages/tidegate/src/index.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'

export interface KeysMemory {
  /** What is in use after garbage collection, and buffers. */
  readonly heapBytes: number
  /** The memory of the process, from when it was busy with few keys; and from when it was idle. */
  readonly residentBytes: number
  readonly residentFromIdleBytes: number
  readonly seconds: number
  readonly hottest: string | undefined
}

const IN_FLIGHT = 500
const KNOWN_KEYS = 5_000

/** A decision without Redis would prove nothing, so a busy machine has time to answer. */
const PATIENCE_MS = 5_000

/** Calls for the hot key: one of so many. */
const HOT_SHARE = 250

export async function memoryOfKeys(url: string, keys: number): Promise<KeysMemory> {
  const argv = ['--expose-gc', import.meta.filename, url, String(keys)]
  const { stdout } = await promisify(execFile)(process.execPath, argv)
  return JSON.parse(stdout)
}

if (process.argv[1] === import.meta.filename) {
  const [, , url = '', keys] = process.argv
  console.log(JSON.stringify(await measure(url, Number(keys))))
}

async function measure(url: string, keys: number): Promise<KeysMemory> {
  const client = new Redis(url)
  const limiter = createLimiter({
    limit: tokenBucket({ limit: 10, per: '1s' }),
    store: redisStore(client, { timeoutMs: PATIENCE_MS }),
    deadlineMs: PATIENCE_MS,
  })
  const ask = async (keyAt: (at: number) => string) => {
    for (let from = 0; from < keys; from += IN_FLIGHT) {
      const calls = Array.from({ length: IN_FLIGHT }, (_, at) => limiter.check(keyAt(from + at)))
      await Promise.all(calls)
    }
  }
  await limiter.check('first')
  const idleBytes = process.memoryUsage.rss()
  await ask((at) => `known ${at % KNOWN_KEYS}`)
  const heapBefore = heapBytes()
  const residentBefore = process.memoryUsage.rss()
  const startMs = performance.now()
  await ask((at) => (at % HOT_SHARE === 0 ? 'hot' : `one of many ${at}`))
  const seconds = (performance.now() - startMs) / 1_000
  const resident = process.memoryUsage.rss()
  const hottest = limiter.hotKeys()[0]?.key
  const heapAfter = heapBytes()
  await limiter.close()
  client.disconnect()
  return {
    heapBytes: heapAfter - heapBefore,
    residentBytes: resident - residentBefore,
    residentFromIdleBytes: resident - idleBytes,
    seconds,
    hottest,
  }
}

function heapBytes(): number {
  globalThis.gc?.()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}
