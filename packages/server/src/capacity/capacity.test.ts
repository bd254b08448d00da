import { describe, expect, test } from 'vitest'
import { capacityFor, type Demand, type Supply } from './capacity.ts'
import { bytesPerKey, bytesPerLogEntry } from './measured-costs.ts'

const demand: Demand = {
  requestsPerSecond: 100_000,
  keys: 1_000_000,
  algorithm: 'tokenBucket',
  limitsPerRequest: 1,
  hotShare: 0,
  logEntries: 1,
}

const supply: Supply = {
  utilisation: 0.5,
  replicas: 1,
  coresPerGateway: 2,
  shardMemoryBytes: 1e9,
  shardNetworkBytesPerSecond: 1e12,
}

const own = { gatewayRequestsPerCore: 10_000, redisDecisionsPerCore: 100_000, bytesPerKey: 100 }

describe('the capacity for a load', () => {
  test('is the load divided by the rate of a core and the utilisation', () => {
    // 10 cores of load at 50 % need 20. 1 core of Redis at 50 % needs 2 shards; a Cluster has 3.
    expect(capacityFor(demand, supply, own)).toMatchObject({
      gatewayCores: 20,
      gateways: 10,
      shardsByCpu: 2,
      shardsByMemory: 1,
      shards: 3,
      redisServers: 6,
    })
  })

  test('is one Redis server if that is enough, and at least two gateways', () => {
    const small = { ...demand, requestsPerSecond: 1_000 }
    expect(capacityFor(small, supply, own)).toMatchObject({
      gatewayCores: 1,
      gateways: 2,
      shards: 1,
      redisServers: 2,
    })
  })

  test('takes the largest of CPU, memory and network', () => {
    const manyKeys = { ...demand, keys: 100_000_000 }
    // 10 GB of keys, 0.5 GB per shard.
    expect(capacityFor(manyKeys, supply, own)).toMatchObject({ shardsByMemory: 20, shards: 20 })
    const slowNetwork = { ...supply, shardNetworkBytesPerSecond: 1e6 }
    const { shards, shardsByNetwork } = capacityFor(demand, slowNetwork, own)
    expect(shards).toBe(shardsByNetwork)
    expect(shardsByNetwork).toBeGreaterThan(20)
  })

  test('counts every limit of a request as a decision with separate keys', () => {
    const layered = { ...demand, limitsPerRequest: 5 }
    const { decisionsPerSecond, shardsByCpu, shardUse } = capacityFor(layered, supply, own)
    expect({ decisionsPerSecond, shardsByCpu }).toEqual({
      decisionsPerSecond: 500_000,
      shardsByCpu: 10,
    })
    expect(shardUse.memory).toBeCloseTo((5 * 1_000_000 * 100) / 10 / 1e9)
  })

  test('needs few shards for hot keys, except with sliding logs', () => {
    const hot = { ...demand, requestsPerSecond: 10_000_000, hotShare: 1 }
    const cold = { ...hot, hotShare: 0 }
    expect(capacityFor(hot, supply, {}).shardsByCpu).toBeLessThan(5)
    expect(capacityFor(cold, supply, {}).shardsByCpu).toBeGreaterThan(50)
    const logOf = (load: Demand) => capacityFor({ ...load, algorithm: 'slidingLog' }, supply, {})
    expect(logOf(hot).shardsByCpu).toBe(logOf(cold).shardsByCpu)
  })

  test('counts the entries of a sliding log', () => {
    const logs = { ...demand, algorithm: 'slidingLog', logEntries: 101 } as const
    const { shardUse, shards } = capacityFor(logs, supply, { redisDecisionsPerCore: 100_000 })
    const bytes = bytesPerKey.slidingLog + 100 * bytesPerLogEntry
    expect(shardUse.memory).toBeCloseTo((bytes * 1_000_000) / shards / 1e9)
  })

  test('keeps every shard within the utilisation', () => {
    for (const requestsPerSecond of [10, 5_000, 77_777, 1_000_000, 123_456_789]) {
      const { shardUse } = capacityFor({ ...demand, requestsPerSecond }, supply, {})
      for (const use of Object.values(shardUse)) expect(use).toBeLessThanOrEqual(0.5)
    }
  })
})
