/** The owner of slots of a cluster dies or hangs while every client uses it. */

import { afterEach, describe, expect, it } from 'vitest'
import { tokenBucket } from '../../packages/tidegate/src/index.ts'
import { RedisKeys } from '../../packages/tidegate/src/stores/redis/redis-key.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import type { Counter, Store } from '../../packages/tidegate/src/stores/store.ts'
import { type ConnectedClient, recommendedClientKinds } from '../servers/clients.ts'
import { type RedisCluster, type RedisClusterNode, startCluster } from '../servers/cluster.ts'
import { until } from '../servers/until.ts'
import { kindsOf, remaining, Traffic } from './traffic.ts'

/** More than a test can ask for, over so long a period that nothing comes back meanwhile. */
const LIMIT = 1_000_000

const limit = tokenBucket({ limit: LIMIT, per: '365d' })

const TIMEOUT_MS = 500

/** Of requests that the failover is not to touch, and of those after it. */
const PATIENCE_MS = 20_000

/** After a replica has taken over; on a busy machine clients need a few times half a second. */
const RECOVERY_MS_MAX = 5_000

/** Beyond its timeout, for a request of a process that does not get to run. */
const LATE_MS_MAX = 5_000

/** An owner may have answered this long before it died without having told its replica. */
const REPLICATION_LAG_MS = 200

interface Use {
  readonly name: string
  readonly connection: ConnectedClient
  readonly store: Store
  /** Of slots of the owner that will be lost, and of all others. */
  readonly hit: Traffic
  readonly other: Traffic
  readonly hitCounters: readonly Counter[]
}

let cluster: RedisCluster
let uses: Use[] = []

afterEach(async () => {
  await stopTraffic()
  for (const { connection } of uses) connection.close()
  uses = []
  await cluster?.stop()
})

describe('when the owner of slots', () => {
  it('is killed, its slots go on with its replica, and all others as if nothing was', async () => {
    const { owner, lostMs, promotedMs } = await lose('SIGKILL')
    for (const { name, hit } of uses) {
      // This version asks for the new owner only where the old one is back.
      if (name === 'node-redis 5') continue
      const answeredMs = await hit.untilAnsweredAfter(lostMs + REPLICATION_LAG_MS)
      expect.soft(answeredMs, name).toBeLessThan(promotedMs + RECOVERY_MS_MAX)
    }
    await owner.restart()
    for (const { hit } of uses) await hit.untilAnsweredAfter(lostMs + REPLICATION_LAG_MS)
    await stopTraffic()
    for (const use of uses) await checkCounts(use, lostMs)
  })

  it('hangs, its slots go on with its replica, and all others as if nothing was', async () => {
    const { owner, lostMs } = await lose('SIGSTOP')
    // node-redis leaves a connection only where it has sent nothing for a while.
    const leaving = uses.filter(({ name }) => name.startsWith('ioredis'))
    for (const { hit } of leaving) await hit.untilAnsweredAfter(lostMs + REPLICATION_LAG_MS)
    owner.kill('SIGCONT')
    for (const { hit } of uses) await hit.untilAnsweredAfter(lostMs + REPLICATION_LAG_MS)
    await stopTraffic()
    for (const use of uses) await checkCounts(use, lostMs)
  })
})

async function lose(signal: 'SIGKILL' | 'SIGSTOP') {
  const args = ['--cluster-require-full-coverage', 'no']
  cluster = await startCluster({ masters: 3, replicasPerMaster: 1, nodeTimeoutMs: 1000, args })
  const { masters, replicas } = cluster
  const [owner, replica] = [masters[0] as RedisClusterNode, replicas[0] as RedisClusterNode]
  for (const [at, kind] of recommendedClientKinds.entries()) {
    uses.push(await use(kind.name, `use${at}`, await kind.cluster(cluster), owner))
  }
  const nowMs = performance.now()
  for (const { hit, other } of uses) {
    await Promise.all([hit.untilAnsweredAfter(nowMs), other.untilAnsweredAfter(nowMs)])
  }
  const lostMs = performance.now()
  owner.kill(signal)
  const promotedMs = await until('the replica takes over', async () => {
    const role = await replica.command('ROLE')
    return Array.isArray(role) && role[0] === 'master' && performance.now()
  })
  return { owner, lostMs, promotedMs }
}

async function use(
  name: string,
  prefix: string,
  connection: ConnectedClient,
  owner: RedisClusterNode,
): Promise<Use> {
  const store = redisStore(connection.client, { prefix, timeoutMs: PATIENCE_MS })
  const hurried = redisStore(connection.client, { prefix, timeoutMs: TIMEOUT_MS })
  const keys = new RedisKeys(prefix)
  const hitCounters: Counter[] = []
  const otherCounters: Counter[] = []
  for (let at = 0; hitCounters.length < 4 || otherCounters.length < 4; at += 1) {
    const counter = { name: 'limit', key: `client ${at}`, limit }
    const { id } = await cluster.masterOf(keys.ofCounter(counter))
    const counters = id === owner.id ? hitCounters : otherCounters
    if (counters.length < 4) counters.push(counter)
  }
  const hit = new Traffic(hurried, asGroups(hitCounters))
  const other = new Traffic(store, asGroups(otherCounters))
  return { name, connection, store, hit, other, hitCounters }
}

function asGroups(counters: readonly Counter[]): Counter[][] {
  return counters.map((counter) => [counter])
}

async function stopTraffic(): Promise<void> {
  await Promise.all(uses.flatMap(({ hit, other }) => [hit.stop(), other.stop()]))
}

/** `lostMs` is when the owner was lost. */
async function checkCounts(use: Use, lostMs: number): Promise<void> {
  const { name, store, hit, other, hitCounters } = use
  expect.soft(kindsOf(other.failures), name).toEqual([])
  expect.soft(Math.max(hit.slowestMs, other.slowestMs), name).toBeLessThan(TIMEOUT_MS + LATE_MS_MAX)
  const codes = new Set(hit.failures.map(({ code }) => code))
  const isKnown = [...codes].every(
    (code) => code === 'store-unreachable' || code === 'store-timeout',
  )
  expect.soft(isKnown, `${name}: ${kindsOf(hit.failures)}`).toBe(true)

  // Each request that was under way may have been counted, once; others that failed were not sent.
  const unknown = hit.failures.filter(
    ({ beganMs, code }) => beganMs <= lostMs || code === 'store-timeout',
  )
  const atRisk = hit.answeredMs.filter(
    (answeredMs) => answeredMs > lostMs - REPLICATION_LAG_MS && answeredMs <= lostMs + TIMEOUT_MS,
  )
  let used = 0
  for (const counter of hitCounters) {
    const [left = Number.NaN] = await remaining(store, [counter])
    used += LIMIT - left
    const rest = await store.charge([{ ...counter, cost: left }], 'all')
    expect.soft(rest, name).toMatchObject([{ allowed: true, remaining: 0 }])
    const [more] = await store.charge([{ ...counter, cost: 1 }], 'all')
    expect.soft(more?.allowed, name).toBe(false)
  }
  expect.soft(used, name).toBeLessThanOrEqual(hit.admittedCount + unknown.length)
  expect.soft(used, name).toBeGreaterThanOrEqual(hit.admittedCount - atRisk.length)
}
