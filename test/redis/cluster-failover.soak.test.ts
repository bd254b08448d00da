/** The owner of slots of a cluster dies or hangs while every client uses it. */

import { afterEach, describe, expect, it } from 'vitest'
import { BUCKETS_DEFAULT, bucketTags } from '../../packages/tidegate/src/stores/redis/buckets.ts'
import { RedisKeys } from '../../packages/tidegate/src/stores/redis/redis-key.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import type { Counter, Store } from '../../packages/tidegate/src/stores/store.ts'
import { type ConnectedClient, unhurriedClientKinds } from '../support/servers/clients.ts'
import {
  type RedisCluster,
  type RedisClusterNode,
  startCluster,
} from '../support/servers/cluster.ts'
import { until } from '../support/servers/until.ts'
import {
  expectCounted,
  expectKnownFailures,
  LATE_MS_MAX,
  LIMIT,
  type Loss,
  limit,
  lose,
  PATIENCE_MS,
  RECOVERY_MS_MAX,
  TIMEOUT_MS,
} from './failover.ts'
import { kindsOf, remaining, Traffic } from './traffic.ts'

interface Use {
  readonly name: string
  readonly connection: ConnectedClient
  readonly store: Store
  /** Traffic on slots of the lost owner, and on all other slots. */
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
    const { owner, loss, promotedMs } = await loseOwner('SIGKILL')
    for (const { name, hit } of uses) {
      // This version looks for the new owner only when the old one is back.
      if (name === 'node-redis 5') continue
      const answeredMs = await hit.untilAnsweredAfter(loss.lostMs)
      expect.soft(answeredMs, name).toBeLessThan(promotedMs + RECOVERY_MS_MAX)
    }
    await owner.restart()
    for (const { hit } of uses) await hit.untilAnsweredAfter(loss.lostMs)
    await stopTraffic()
    for (const use of uses) await checkCounts(use, loss)
  })

  it('hangs, its slots go on with its replica, and all others as if nothing was', async () => {
    const { owner, loss } = await loseOwner('SIGSTOP')
    // node-redis leaves a connection only after it was idle for a while.
    const leaving = uses.filter(({ name }) => name.startsWith('ioredis'))
    for (const { hit } of leaving) await hit.untilAnsweredAfter(loss.lostMs)
    const resumedMs = performance.now()
    owner.kill('SIGCONT')
    const demotedMs = await until('it knows that it was replaced', async () => {
      return (await roleOf(owner)) === 'slave' && performance.now()
    })
    for (const { hit } of uses) await hit.untilAnsweredAfter(demotedMs)
    await stopTraffic()
    for (const use of uses) await checkCounts(use, { ...loss, resumedMs, demotedMs })
  })
})

async function loseOwner(signal: 'SIGKILL' | 'SIGSTOP') {
  const args = ['--cluster-require-full-coverage', 'no']
  cluster = await startCluster({ masters: 3, replicasPerMaster: 1, nodeTimeoutMs: 3000, args })
  const { masters, replicas } = cluster
  const [owner, replica] = [masters[0] as RedisClusterNode, replicas[0] as RedisClusterNode]
  for (const [at, kind] of unhurriedClientKinds.entries()) {
    uses.push(await use(kind.name, `use${at}`, await kind.cluster(cluster), owner))
  }
  const nowMs = performance.now()
  for (const { hit, other } of uses) {
    await Promise.all([hit.untilAnsweredAfter(nowMs), other.untilAnsweredAfter(nowMs)])
  }
  const loss = await lose(owner, [replica], signal)
  const promotedMs = await until('the replica takes over', async () => {
    return (await roleOf(replica)) === 'master' && performance.now()
  })
  return { owner, loss, promotedMs }
}

async function roleOf(node: RedisClusterNode): Promise<unknown> {
  const role = await node.command('ROLE')
  return Array.isArray(role) ? role[0] : undefined
}

async function use(
  name: string,
  prefix: string,
  connection: ConnectedClient,
  owner: RedisClusterNode,
): Promise<Use> {
  const store = redisStore(connection.client, { prefix, timeoutMs: PATIENCE_MS })
  const hurried = redisStore(connection.client, { prefix, timeoutMs: TIMEOUT_MS })
  const keys = new RedisKeys(prefix, bucketTags(BUCKETS_DEFAULT))
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

async function checkCounts(use: Use, loss: Loss): Promise<void> {
  const { name, store, hit, other, hitCounters } = use
  expect.soft(kindsOf(other.failures), name).toEqual([])
  expectKnownFailures(name, hit)
  expect.soft(other.slowestMs, name).toBeLessThan(LATE_MS_MAX)
  let used = 0
  for (const counter of hitCounters) {
    const [left = Number.NaN] = await until('it can be read', () => remaining(store, [counter]))
    used += LIMIT - left
    const rest = await store.charge([{ ...counter, cost: left }], 'all')
    expect.soft(rest, name).toMatchObject([{ allowed: true, remaining: 0 }])
    const [more] = await store.charge([{ ...counter, cost: 1 }], 'all')
    expect.soft(more?.allowed, name).toBe(false)
  }
  expectCounted(name, hit, used, loss)
}
