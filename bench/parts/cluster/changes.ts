/**
 * Decisions while a cluster changes: slots move to another master, a replica takes over, a master
 * is killed. Every key is asked for more often than its limit allows, and no unit comes back, so
 * that each admitted request beyond the limit is counted.
 */

import { Cluster } from 'ioredis'
import { createLimiter, type Limiter, tokenBucket } from 'tidegate'
import { redisStore } from 'tidegate/redis'
import { type RedisCluster, startCluster } from '../../../test/support/servers/cluster.ts'
import { until } from '../../../test/support/servers/until.ts'
import type { Run } from '../../harness/part.ts'
import { evenKeys } from '../load/draws.ts'

const CALLERS = 64
const SLOTS_MOVED = 1_000

/** Longer than a takeover, so that the calls that meet it are decided by Redis. */
const DEADLINE_MS = 10_000

interface Figures {
  decisions: number
  /** Calls that were rejected. */
  failed: number
  /** Decisions that were made without Redis. */
  degraded: number
  /** Admitted requests beyond the limits of their keys. */
  over: number
  longestMs: number
}

const changes = [
  { name: `${SLOTS_MOVED.toLocaleString('en')} slots move`, make: moveSlots },
  { name: 'a replica takes over', make: takeOver },
  { name: 'a master is killed', make: killMaster },
]

export async function measureChanges(run: Run): Promise<void> {
  const rows = []
  for (const { name, make } of changes) {
    run.progress(`starts a cluster of 3 with replicas: ${name}`)
    const cluster = await startCluster({ masters: 3, replicasPerMaster: 1, nodeTimeoutMs: 1_000 })
    run.onStop(() => cluster.stop())
    const client = new Cluster([...cluster.addresses])
    run.onStop(() => client.disconnect())
    const { decisions, failed, degraded, over, longestMs } = await during(run, client, () =>
      make(cluster),
    )
    rows.push({ name, isOurs: true, cells: [decisions, failed, degraded, over, longestMs] })
    client.disconnect()
    await cluster.stop()
  }
  run.table({
    name: 'cluster-changes',
    title: `Decisions while a cluster of three masters changes, ${CALLERS} in flight`,
    columns: [
      { name: 'decisions', digits: 0 },
      { name: 'failed', digits: 0 },
      { name: 'without Redis', digits: 0 },
      { name: 'over the limit', digits: 0 },
      { name: 'longest in ms', digits: 0 },
    ],
    rows,
  })
  run.note(
    'A master that is killed takes the charges with it that its replica did not have yet, as ' +
      'Redis replicates after it has answered: these can be admitted once more.',
  )
}

/** Calls from before the change until some time after it. */
async function during(run: Run, client: Cluster, change: () => Promise<void>): Promise<Figures> {
  const limit = run.isQuick ? 20 : 100
  const limiter = createLimiter({
    limit: tokenBucket({ limit, per: '365d', accuracy: 'exact' }),
    store: redisStore(client),
    deadlineMs: DEADLINE_MS,
    queueMs: DEADLINE_MS,
  })
  const keys = evenKeys(run.isQuick ? 500 : 5_000)
  const figures: Figures = { decisions: 0, failed: 0, degraded: 0, over: 0, longestMs: 0 }
  const admitted = new Map<string, number>()
  let isRunning = true
  let next = 0
  const caller = async () => {
    while (isRunning) {
      const key = keys[next++ % keys.length] as string
      if (await isAdmitted(limiter, key, figures)) admitted.set(key, (admitted.get(key) ?? 0) + 1)
    }
  }
  const callers = Array.from({ length: CALLERS }, caller)
  try {
    await until('calls are answered', () => figures.decisions > keys.length)
    await change()
    // Every limit must have been reached, or the figure would be meaningless.
    const wanted = figures.decisions + keys.length * (limit + 1)
    await until('all limits are reached', () => figures.decisions + figures.failed >= wanted)
  } finally {
    isRunning = false
    await Promise.all(callers)
  }
  for (const count of admitted.values()) figures.over += Math.max(0, count - limit)
  return figures
}

async function isAdmitted(limiter: Limiter, key: string, figures: Figures): Promise<boolean> {
  const startMs = performance.now()
  try {
    const { allowed, degraded } = await limiter.check(key)
    figures.decisions += 1
    if (degraded !== null) figures.degraded += 1
    return allowed
  } catch {
    figures.failed += 1
    return false
  } finally {
    figures.longestMs = Math.max(figures.longestMs, performance.now() - startMs)
  }
}

async function moveSlots(cluster: RedisCluster): Promise<void> {
  const [from, to] = cluster.masters
  if (from === undefined || to === undefined) throw new Error('there are two masters')
  // The first master has the first third of the slots.
  const slots = Array.from({ length: SLOTS_MOVED }, (_, slot) => slot)
  await cluster.moveSlots(slots, { from, to })
}

async function takeOver({ replicas }: RedisCluster): Promise<void> {
  await replicas[0]?.command('CLUSTER', 'FAILOVER')
  await untilMaster(replicas[0])
}

async function killMaster({ masters, replicas }: RedisCluster): Promise<void> {
  masters[0]?.kill('SIGKILL')
  await untilMaster(replicas[0])
}

async function untilMaster(replica: RedisCluster['replicas'][number] | undefined): Promise<void> {
  await until('the replica is a master', async () => {
    const role = await replica?.command('ROLE')
    return Array.isArray(role) && role[0] === 'master'
  })
}
