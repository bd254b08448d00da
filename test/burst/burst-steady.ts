/** Loads that last: on a Cluster, and in a process that is stopped again and again. */

import { setTimeout as sleep } from 'node:timers/promises'
import { startCluster } from '../support/servers/cluster.ts'
import { startRedis } from '../support/servers/redis.ts'
import { type BurstProcess, startBurstProcess } from './burst-process.ts'
import type { BurstResult } from './burst-run.ts'
import { burstOnHealthyRedis } from './burst-witness.ts'

/** Lower than the number of calls for each key. */
const LIMIT = 3
const ASKS_PER_KEY = 5

const IN_FLIGHT_CLUSTER = 256
const KEYS_CLUSTER = 2_000

const IN_FLIGHT_STOPPED = 64

/** A container with a CPU quota of 40 % is stopped like this by the kernel. */
const STOPPED_MS = 60
const RUNNING_MS = 40

/**
 * A healthy Cluster of three masters, and one process that calls as fast as it is answered.
 * Together they keep two cores busy. Each burst has counters of its own.
 */
export async function burstsOnCluster(
  bursts: number,
  forMs: number,
  isAsExpected: (result: BurstResult) => boolean,
): Promise<BurstResult[]> {
  const cluster = await startCluster({ masters: 3, replicasPerMaster: 0 })
  try {
    const plan = { client: 'ioredis, Cluster', limit: LIMIT, isWarm: true } as const
    const started = await startBurstProcess({ ...plan, addresses: cluster.addresses })
    try {
      const burst = (name: string) =>
        started.run({
          name,
          keys: KEYS_CLUSTER,
          asksPerKey: ASKS_PER_KEY,
          pace: { inFlight: IN_FLIGHT_CLUSTER, forMs },
        })
      const results: BurstResult[] = []
      for (let at = 0; at < bursts; at += 1) {
        const named = (number: number) => burst(`cluster-${at}-${number}`)
        results.push(await burstOnHealthyRedis(cluster.addresses, named, isAsExpected))
      }
      return results
    } finally {
      await started.stop()
    }
  } finally {
    await cluster.stop()
  }
}

/** A healthy Redis, and a process that is stopped for 60 of every 100 ms. */
export async function burstWhileStopped(
  keys: number,
  forMs: number,
  isAsExpected: (result: BurstResult) => boolean,
): Promise<BurstResult> {
  const redis = await startRedis()
  try {
    const { host, port } = redis
    const plan = { client: 'ioredis', limit: LIMIT, isWarm: true } as const
    const started = await startBurstProcess({ ...plan, addresses: [{ host, port }] })
    const burst = (number: number) =>
      whileStopped(started, () =>
        started.run({
          name: `stopped-${number}`,
          keys,
          asksPerKey: ASKS_PER_KEY,
          pace: { inFlight: IN_FLIGHT_STOPPED, forMs },
        }),
      )
    try {
      return await burstOnHealthyRedis([{ host, port }], burst, isAsExpected)
    } finally {
      await started.stop()
    }
  } finally {
    await redis.stop()
  }
}

/** Ends with the process running, also if the run fails. */
async function whileStopped<T>({ pid }: BurstProcess, run: () => Promise<T>): Promise<T> {
  let isOver = false
  const running = run().finally(() => {
    isOver = true
  })
  // The caller gets the rejection from `running` itself.
  running.catch(() => undefined)
  while (!isOver) {
    await sleep(RUNNING_MS)
    if (isOver) break
    process.kill(pid, 'SIGSTOP')
    await sleep(STOPPED_MS)
    process.kill(pid, 'SIGCONT')
  }
  return running
}
