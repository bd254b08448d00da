/**
 * A process that calls many keys once each, and one key repeatedly, and reports the memory that
 * this took. Started by `memoryOfKeys`.
 *
 * It first makes as many calls for known keys, because V8's young generation grows under any load.
 */

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import { createLimiter, tokenBucket } from '../../packages/tidegate/src/index.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import { PATIENCE_MS, patient } from '../support/patience.ts'

export interface KeysMemory {
  /** Bytes in use after a garbage collection, with buffers. */
  readonly heapBytes: number
  /** Growth of resident memory since the process was busy with few keys, and since it was idle. */
  readonly residentBytes: number
  readonly residentFromIdleBytes: number
  readonly seconds: number
  readonly hottest: string | undefined
}

const IN_FLIGHT = 500
const KNOWN_KEYS = 5_000

/** One of this many calls is for the hot key. */
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
    ...patient,
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
