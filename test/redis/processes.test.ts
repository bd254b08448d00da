import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { type ConnectedClient, redisClientKinds } from '../support/servers/clients.ts'
import { startCluster } from '../support/servers/cluster.ts'
import { startRedis } from '../support/servers/redis.ts'
import { sizes } from '../support/suite.ts'
import {
  LIMIT,
  type Scenario,
  type Scenarios,
  scenarioNames,
  scenariosOn,
  WIDE_LIMIT,
} from './scenarios.ts'
import { startWorkers, type Workers } from './workers.ts'

/** Attempts of each process; four processes make ten times as many as the limit. */
const ATTEMPTS = 250

/** Lost updates show within a few rounds. */
const ROUNDS = sizes.sharedRounds
const ROUNDS_MANY = sizes.sharedRoundsOfBuckets

interface Bench {
  readonly workers: Workers
  /** Reads the counters from this process. */
  readonly scenarios: Scenarios
  stop(): Promise<void>
}

describe('four processes, each with another client, on one server', () => {
  const bench = useBench(async () => {
    const server = await startRedis()
    const { host, port } = server
    const plan = { addresses: [{ host, port }], isCluster: false }
    const plans = redisClientKinds.map(({ name }) => ({ client: name, ...plan }))
    const own = await redisClientKinds[0]?.single(server)
    return benchOf(await startWorkers(plans), own, () => server.stop())
  })

  it.each(scenarioNames)('admit exactly the limit: %s', async (scenario) => {
    const rounds = scenario === 'tokenBucket' ? ROUNDS_MANY : ROUNDS
    await runRounds(bench(), scenario, rounds)
  })
})

describe('four processes on a cluster of three masters', () => {
  const bench = useBench(async () => {
    const cluster = await startCluster({ masters: 3, replicasPerMaster: 0 })
    const plan = { addresses: cluster.addresses, isCluster: true }
    const plans = redisClientKinds.map(({ name }) => ({ client: name, ...plan }))
    const own = await redisClientKinds[0]?.cluster(cluster)
    return benchOf(await startWorkers(plans), own, () => cluster.stop())
  })

  const single = scenarioNames.filter((scenario) => scenario !== 'twoLimits')

  it.each(single)('admit exactly the limit: %s', async (scenario) => {
    await runRounds(bench(), scenario, ROUNDS)
  })
})

async function runRounds({ workers, scenarios }: Bench, scenario: Scenario, rounds: number) {
  for (let round = 0; round < rounds; round++) {
    const key = randomUUID()
    const result = await workers.run({ scenario, key, attempts: ATTEMPTS })
    expect(result).toEqual({ admitted: LIMIT, failures: [] })
    const left = scenario === 'twoLimits' ? [0, WIDE_LIMIT - LIMIT] : [0]
    expect(await scenarios.remaining(scenario, key)).toEqual(left)
  }
}

function useBench(start: () => Promise<Bench>): () => Bench {
  let bench: Bench | undefined
  beforeAll(async () => {
    bench = await start()
  })
  afterAll(() => bench?.stop())
  return () => {
    if (bench === undefined) throw new Error('the servers have not started')
    return bench
  }
}

function benchOf(
  workers: Workers,
  own: ConnectedClient | undefined,
  stopServers: () => Promise<void>,
): Bench {
  if (own === undefined) throw new Error('there is no client')
  return {
    workers,
    scenarios: scenariosOn(redisStore(own.client, { timeoutMs: PATIENCE_MS })),
    async stop() {
      await workers.stop()
      own.close()
      await stopServers()
    },
  }
}
