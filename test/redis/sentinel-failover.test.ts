/** A master under the watch of Sentinels dies or hangs while every client uses it. */

import { afterEach, describe, expect, it } from 'vitest'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import type { Counter, Store } from '../../packages/tidegate/src/stores/store.ts'
import { type ConnectedClient, unhurriedClientKinds } from '../support/servers/clients.ts'
import type { RedisServer } from '../support/servers/redis.ts'
import { type RedisSentinel, startSentinel } from '../support/servers/sentinel.ts'
import { until } from '../support/servers/until.ts'
import { isSoak } from '../support/suite.ts'
import {
  expectCounted,
  expectKnownFailures,
  LIMIT,
  type Loss,
  limit,
  lose,
  PATIENCE_MS,
  RECOVERY_MS_MAX,
  TIMEOUT_MS,
} from './failover.ts'
import { remaining, Traffic } from './traffic.ts'

const busy = { name: 'busy', key: 'ada', limit }
const spent = { name: 'spent', limit }

/** So long that a stall of the machine is not a failover. */
const DOWN_AFTER_MS = 3_000

interface Use {
  readonly name: string
  readonly connection: ConnectedClient
  readonly store: Store
  readonly traffic: Traffic
  /** A counter that is spent, also on all replicas. */
  readonly spent: Counter
}

let group: RedisSentinel
let uses: Use[] = []

afterEach(async () => {
  await Promise.all(uses.map(({ traffic }) => traffic.stop()))
  for (const { connection } of uses) connection.close()
  uses = []
  await group?.stop()
})

const losses: [what: string, 'SIGKILL' | 'SIGSTOP'][] = [['is killed', 'SIGKILL']]
if (isSoak) losses.push(['hangs', 'SIGSTOP'])

describe('when the master', () => {
  it.each(losses)('%s, requests fail in time and go on with the next master', async (_, signal) => {
    group = await startSentinel({ replicas: 2, sentinels: 3, downAfterMs: DOWN_AFTER_MS })
    await useIt()
    const master = await group.master()
    const loss = await lose(master, replicasOf(master), signal)
    const promotedMs = await promotion(master, group.sentinels)
    for (const { name, traffic } of uses) {
      const answeredMs = await traffic.untilAnsweredAfter(loss.lostMs)
      // This version asks the Sentinels at most once a second.
      if (name === 'node-redis 5') continue
      expect.soft(answeredMs, name).toBeLessThan(promotedMs + RECOVERY_MS_MAX)
    }
    await Promise.all(uses.map(({ traffic }) => traffic.stop()))
    for (const use of uses) await checkCounts(use, loss)
  })

  if (!isSoak) return

  it('is killed and a Sentinel hangs, requests go on with the next master', async () => {
    group = await startSentinel({ replicas: 1, sentinels: 3, downAfterMs: DOWN_AFTER_MS })
    await useIt()
    const master = await group.master()
    const [hanging, ...sentinels] = group.sentinels
    hanging?.kill('SIGSTOP')
    const loss = await lose(master, replicasOf(master), 'SIGKILL')
    await promotion(master, sentinels)
    // The previous version never asks another Sentinel.
    const asking = uses.filter(({ name }) => name !== 'node-redis 5')
    for (const { traffic } of asking) await traffic.untilAnsweredAfter(loss.lostMs)
    await Promise.all(uses.map(({ traffic }) => traffic.stop()))
    for (const use of asking) await checkCounts(use, loss)
  })
})

/** Uses every client at once: one spent counter, and one in use. */
async function useIt(): Promise<void> {
  for (const [at, kind] of unhurriedClientKinds.entries()) {
    const connection = await kind.sentinel(group)
    const prefix = `use${at}`
    const patient = { prefix, timeoutMs: PATIENCE_MS, replicasTimeoutMs: PATIENCE_MS / 2 }
    const replicas = { durability: 'replicated', replicas: group.servers.length - 1 } as const
    const safe = redisStore(connection.client, { ...patient, ...replicas })
    let tries = 0
    const spentOnAll = await until('a counter is spent on all servers', async () => {
      const counter = { ...spent, key: `ada ${++tries}` }
      const [all] = await safe.charge([{ ...counter, cost: LIMIT }], 'all')
      return all?.allowed === true && all.degraded === null && counter
    })
    const traffic = new Traffic(redisStore(connection.client, { prefix, timeoutMs: TIMEOUT_MS }), [
      [busy],
    ])
    const store = redisStore(connection.client, { prefix, timeoutMs: PATIENCE_MS })
    uses.push({ name: kind.name, connection, store, traffic, spent: spentOnAll })
  }
  for (const { traffic } of uses) await traffic.untilAnsweredAfter(performance.now())
}

/** Waits until all of these Sentinels name another master and the failover is over. */
async function promotion(old: RedisServer, sentinels: readonly RedisServer[]): Promise<number> {
  const isSure = async (sentinel: RedisServer) => {
    const reply = await sentinel.command('SENTINEL', 'MASTER', group.name)
    const fields = Array.isArray(reply) ? reply.map(String) : []
    const field = (name: string) => fields[fields.indexOf(name) + 1]
    return field('flags') === 'master' && field('port') !== String(old.port)
  }
  return until('all Sentinels name another master', async () => {
    const answers = await Promise.all(sentinels.map(isSure))
    return answers.every(Boolean) && performance.now()
  })
}

function replicasOf(master: RedisServer): RedisServer[] {
  return group.servers.filter((server) => server !== master)
}

async function checkCounts({ name, store, traffic, spent }: Use, loss: Loss): Promise<void> {
  expectKnownFailures(name, traffic)
  const [left = Number.NaN] = await until('counters can be read', () => remaining(store, [busy]))
  expectCounted(name, traffic, LIMIT - left, loss)

  const rest = await store.charge([{ ...busy, cost: left }], 'all')
  expect.soft(rest, name).toMatchObject([{ allowed: true, remaining: 0 }])
  for (const counter of [busy, spent]) {
    const [more] = await store.charge([{ ...counter, cost: 1 }], 'all')
    expect.soft(more?.allowed, name).toBe(false)
  }
}
