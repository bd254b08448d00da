/**
 * Computes the gateways and Redis shards for a load: measured cost times load, divided by the
 * allowed utilisation. It is pure arithmetic, so every figure can be checked by hand.
 */

import {
  bytesPerKey,
  bytesPerLogEntry,
  gatewayUsPerRequest,
  hotUsPerDecision,
  type PlannedAlgorithm,
  replicatedBytesPerDecision,
  shardUsPerDecision,
  singleUsPerDecision,
  wireBytesPerDecision,
} from './measured-costs.ts'

export interface Demand {
  readonly requestsPerSecond: number
  /** Keys per limit within the lifetime of a counter. */
  readonly keys: number
  readonly algorithm: PlannedAlgorithm
  readonly limitsPerRequest: number
  /** The share of requests for hot keys, from 0 to 1. */
  readonly hotShare: number
  /** Admitted requests per key within its period, each an entry of a sliding log. */
  readonly logEntries: number
}

export interface Supply {
  /** The share of CPU, memory and network that may be in use at peak, from 0 to 1. */
  readonly utilisation: number
  readonly replicas: number
  readonly coresPerGateway: number
  readonly shardMemoryBytes: number
  readonly shardNetworkBytesPerSecond: number
}

/** Costs that replace the measured ones. */
export interface OwnCosts {
  readonly gatewayRequestsPerCore?: number
  readonly redisDecisionsPerCore?: number
  readonly bytesPerKey?: number
}

export interface Capacity {
  readonly requestsPerSecond: number
  readonly decisionsPerSecond: number
  readonly gatewayCores: number
  readonly gateways: number
  readonly shardsByCpu: number
  readonly shardsByMemory: number
  readonly shardsByNetwork: number
  /** The largest of these three. More than one shard is a Cluster, which has at least 3. */
  readonly shards: number
  readonly redisServers: number
  /** The utilisation of each shard, from 0 to 1. */
  readonly shardUse: { readonly cpu: number; readonly memory: number; readonly network: number }
}

/** The loss of one gateway must not be an outage. */
const GATEWAYS_MIN = 2

/** A failover needs a majority of masters. */
const CLUSTER_SHARDS_MIN = 3

export function capacityFor(demand: Demand, supply: Supply, own: OwnCosts): Capacity {
  const { algorithm } = demand
  const single = redisLoad(demand, supply, own, singleUsPerDecision[algorithm])
  const fitsOne = largest(shardsFor(single, supply)) === 1
  const onCluster = redisLoad(demand, supply, own, shardUsPerDecision[algorithm])
  const load = fitsOne ? single : onCluster
  const needed = shardsFor(load, supply)
  const shards = fitsOne ? 1 : Math.max(CLUSTER_SHARDS_MIN, largest(needed))
  const perCore = own.gatewayRequestsPerCore ?? 1e6 / gatewayUsPerRequest
  const gatewayCores = demand.requestsPerSecond / perCore / supply.utilisation
  return {
    requestsPerSecond: demand.requestsPerSecond,
    decisionsPerSecond: demand.requestsPerSecond * demand.limitsPerRequest,
    gatewayCores: Math.ceil(gatewayCores),
    gateways: Math.max(GATEWAYS_MIN, Math.ceil(gatewayCores / supply.coresPerGateway)),
    shardsByCpu: needed.cpu,
    shardsByMemory: needed.memory,
    shardsByNetwork: needed.network,
    shards,
    redisServers: shards * (1 + supply.replicas),
    shardUse: {
      cpu: load.cores / shards,
      memory: load.memoryBytes / shards / supply.shardMemoryBytes,
      network: load.networkBytesPerSecond / shards / supply.shardNetworkBytesPerSecond,
    },
  }
}

interface RedisLoad {
  readonly cores: number
  readonly memoryBytes: number
  readonly networkBytesPerSecond: number
}

function redisLoad(
  demand: Demand,
  { replicas }: Supply,
  own: OwnCosts,
  measuredUs: number,
): RedisLoad {
  const { algorithm, limitsPerRequest, keys } = demand
  const decisions = demand.requestsPerSecond * limitsPerRequest
  const leased = decisions * leasedShare(demand)
  const direct = decisions - leased
  const us = own.redisDecisionsPerCore === undefined ? measuredUs : 1e6 / own.redisDecisionsPerCore
  const bytes = wireBytesPerDecision[algorithm] + replicas * replicatedBytesPerDecision
  return {
    cores: (direct * us + leased * Math.min(us, hotUsPerDecision)) / 1e6,
    memoryBytes: keys * limitsPerRequest * (own.bytesPerKey ?? keyBytes(demand)),
    // A decision for a hot key sends less than one byte.
    networkBytesPerSecond: direct * bytes,
  }
}

/** Sliding logs are not leased: Redis logs every admitted request. */
export function leasedShare({
  algorithm,
  hotShare,
}: Pick<Demand, 'algorithm' | 'hotShare'>): number {
  return algorithm === 'slidingLog' ? 0 : hotShare
}

function keyBytes({ algorithm, logEntries }: Demand): number {
  const further = algorithm === 'slidingLog' ? (logEntries - 1) * bytesPerLogEntry : 0
  return bytesPerKey[algorithm] + further
}

interface Needed {
  readonly cpu: number
  readonly memory: number
  readonly network: number
}

/** Redis runs scripts in one thread: a shard is one core. */
function shardsFor(load: RedisLoad, supply: Supply): Needed {
  const { utilisation, shardMemoryBytes, shardNetworkBytesPerSecond } = supply
  const atLeastOne = (use: number) => Math.max(1, Math.ceil(use / utilisation))
  return {
    cpu: atLeastOne(load.cores),
    memory: atLeastOne(load.memoryBytes / shardMemoryBytes),
    network: atLeastOne(load.networkBytesPerSecond / shardNetworkBytesPerSecond),
  }
}

function largest({ cpu, memory, network }: Needed): number {
  return Math.max(cpu, memory, network)
}
