/** The memory of keys in Redis. Each contender fills an empty server step by step. */

import type { Redis } from 'ioredis'
import type { Ask } from './contenders.ts'
import type { KeysWeight } from './keys.ts'

/** As many calls in flight as in a busy server. */
const IN_FLIGHT = 1_000

/** The number of keys whose MEMORY USAGE is read. */
const SAMPLE = 50

export interface RedisWeight extends KeysWeight {
  /** The mean of MEMORY USAGE, which does not include the key table. */
  readonly usageBytes: number
}

export async function weighInRedis(
  ask: Ask,
  sizes: readonly number[],
  client: Redis,
): Promise<RedisWeight[]> {
  await client.flushall('SYNC')
  const emptyBytes = await usedBytes(client)
  const weights: RedisWeight[] = []
  let filled = 0
  for (const keys of sizes) {
    while (filled < keys) {
      const count = Math.min(IN_FLIGHT, keys - filled)
      await Promise.all(Array.from({ length: count }, (_, at) => ask(`user:${filled + at}`)))
      filled += count
    }
    const there = await client.dbsize()
    if (there < keys) throw new Error(`${keys - there} of ${keys} keys are gone already`)
    const bytes = (await usedBytes(client)) - emptyBytes
    weights.push({ keys, bytes, usageBytes: await meanUsage(client) })
  }
  await client.flushall('SYNC')
  return weights
}

async function usedBytes(client: Redis): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await client.info('memory'))?.[1])
}

async function meanUsage(client: Redis): Promise<number> {
  let sum = 0
  for (let at = 0; at < SAMPLE; at++) {
    const key = (await client.randomkey()) ?? ''
    sum += Number(await client.memory('USAGE', key))
  }
  return sum / SAMPLE
}
