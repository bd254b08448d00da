/** A cluster in which some slots have no owner, and clients that treat it as one server. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { TidegateError } from '../../packages/tidegate/src/errors.ts'
import { tokenBucket } from '../../packages/tidegate/src/index.ts'
import { BUCKETS_DEFAULT, bucketTags } from '../../packages/tidegate/src/stores/redis/buckets.ts'
import { RedisKeys } from '../../packages/tidegate/src/stores/redis/redis-key.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import type { Counter, Store } from '../../packages/tidegate/src/stores/store.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { type ConnectedClient, patientClientKinds } from '../support/servers/clients.ts'
import {
  type RedisCluster,
  type RedisClusterNode,
  startCluster,
} from '../support/servers/cluster.ts'
import { until } from '../support/servers/until.ts'

const limit = tokenBucket({ limit: 1000, per: '365d' })

interface Use {
  readonly name: string
  readonly connection: ConnectedClient
  readonly store: Store
}

let cluster: RedisCluster
let uses: Use[] = []
/** A counter on each master. */
let counters: Counter[] = []

beforeAll(async () => {
  const args = ['--cluster-require-full-coverage', 'no']
  cluster = await startCluster({ masters: 3, replicasPerMaster: 0, nodeTimeoutMs: 1000, args })
  counters = await Promise.all(cluster.masters.map((master) => counterOn(master)))
  uses = await Promise.all(
    patientClientKinds.map(async (kind) => {
      const connection = await kind.cluster(cluster)
      return { name: kind.name, connection, store: patientStore(connection) }
    }),
  )
})

afterAll(async () => {
  for (const { connection } of uses) connection.close()
  await cluster?.stop()
})

describe('when a master without a replica dies', () => {
  it('its slots are unreachable until it is back, and only a whole cluster stops', async () => {
    await untilOutcomes(['allowed', 'allowed', 'allowed'])
    cluster.masters[0]?.kill('SIGKILL')
    await untilNodesSay('cluster_slots_fail:5461')
    await untilOutcomes(['store-unreachable', 'allowed', 'allowed'])

    await setCoverage('yes')
    await untilNodesSay('cluster_state:fail')
    await untilOutcomes([undefined, 'store-failed', 'store-failed'])

    await setCoverage('no')
    await untilNodesSay('cluster_state:ok')
    await untilOutcomes(['store-unreachable', 'allowed', 'allowed'])

    await cluster.masters[0]?.restart()
    await untilOutcomes(['allowed', 'allowed', 'allowed'])
  })
})

describe('a client for one server on a node of a cluster', () => {
  it.each(patientClientKinds)(
    'reports keys of two slots as store-misconfigured: $name',
    async (kind) => {
      const master = cluster.masters[1] as RedisClusterNode
      const { client, close } = await kind.single(master)
      try {
        const store = patientStore({ client })
        const one = { ...(await counterOn(master)), cost: 1 }
        const other = { ...(await counterOn(master, 'other')), cost: 1 }
        const expected = {
          code: 'store-misconfigured',
          message: expect.stringMatching(/CROSSSLOT/),
        }
        await expect(store.charge([one, other], 'all')).rejects.toMatchObject(expected)
      } finally {
        close()
      }
    },
  )
})

/** The outcome of a charge of each counter, for each client. */
async function outcomes(): Promise<Record<string, string[]>> {
  const told = uses.map(async ({ name, store }) => {
    const outcome = async (counter: Counter) => {
      try {
        const [decision] = await store.charge([{ ...counter, cost: 1 }], 'all')
        return decision?.allowed === true ? 'allowed' : 'denied'
      } catch (error) {
        return error instanceof TidegateError ? error.code : String(error)
      }
    }
    return [name, await Promise.all(counters.map(outcome))] as const
  })
  return Object.fromEntries(await Promise.all(told))
}

/**
 * Waits until every client has this outcome for each counter; undefined is any outcome. A node that
 * stalls for longer than its timeout changes the state of the cluster for a moment.
 */
async function untilOutcomes(expected: readonly (string | undefined)[]): Promise<void> {
  await until(`charges are ${expected}`, async () => {
    const now = Object.entries(await outcomes()).map(([name, ofClient]) => {
      return [name, ofClient.map((outcome, at) => expected[at] && outcome)]
    })
    expect(now).toEqual(uses.map(({ name }) => [name, expected]))
    return true
  })
}

function patientStore({ client }: Pick<ConnectedClient, 'client'>): Store {
  return redisStore(client, { timeoutMs: PATIENCE_MS })
}

async function setCoverage(coverage: 'yes' | 'no'): Promise<void> {
  for (const master of cluster.masters.slice(1)) {
    await master.command('CONFIG', 'SET', 'cluster-require-full-coverage', coverage)
    // Changes nothing, but makes the node evaluate its state again.
    await master.command('CLUSTER', 'SETSLOT', 0, 'STABLE')
  }
}

async function untilNodesSay(text: string): Promise<void> {
  await until(`nodes say ${text}`, async () => {
    const running = cluster.masters.slice(1)
    const said = await Promise.all(running.map((node) => node.command('CLUSTER', 'INFO')))
    return said.every((info) => String(info).includes(text))
  })
}

/** Tries keys in turn; with three masters every third one matches. */
async function counterOn(master: RedisClusterNode, name = 'limit'): Promise<Counter> {
  const keys = new RedisKeys('tg', bucketTags(BUCKETS_DEFAULT))
  for (let at = 0; ; at += 1) {
    const counter = { name, key: `client ${at}`, limit }
    if ((await cluster.masterOf(keys.ofCounter(counter))).id === master.id) return counter
  }
}
