/**
 * Costs that `./run.sh bench cost` measured on two cores of an AMD EPYC with Node 24 and Redis 7.0,
 * rounded up. `tidegate plan` takes the costs of other machines as options. A new measurement
 * changes only this file.
 */

export const plannedAlgorithms = [
  'tokenBucket',
  'slidingWindow',
  'fixedWindow',
  'slidingLog',
] as const

export type PlannedAlgorithm = (typeof plannedAlgorithms)[number]

type PerAlgorithm = Readonly<Record<PlannedAlgorithm, number>>

/** CPU time of the gateway per request with one limit: `one process, 64 connections`. */
export const gatewayUsPerRequest = 40

/** CPU time of Redis if all gateways use one server: `16 connections, 8 in flight`. */
export const singleUsPerDecision: PerAlgorithm = {
  tokenBucket: 7,
  slidingWindow: 7,
  fixedWindow: 6,
  slidingLog: 20,
}

/**
 * CPU time of one of many shards, by `What a decision costs a shard of a Cluster`. A busier shard
 * reads several commands at once, so it is that of a shard at about 60 % of its core: with a token
 * bucket 11.6 µs at 46 %, 9.3 µs at 55 % and 7.4 µs at 59 %.
 */
export const shardUsPerDecision: PerAlgorithm = {
  tokenBucket: 8,
  slidingWindow: 11,
  fixedWindow: 11,
  slidingLog: 25,
}

/** Clients of that shard: the processes that a million requests per second need. */
export const shardClients = 68

/** Decisions per second of that shard. */
export const shardDecisionsPerSecond: PerAlgorithm = {
  tokenBucket: 80_000,
  slidingWindow: 60_000,
  fixedWindow: 60_000,
  slidingLog: 30_000,
}

/** CPU time of Redis for a key that a gateway serves from a lease: `one hot key`. */
export const hotUsPerDecision = 0.01

/** Bytes to and from Redis for a decision that is not batched. */
export const wireBytesPerDecision: PerAlgorithm = {
  tokenBucket: 127,
  slidingWindow: 148,
  fixedWindow: 144,
  slidingLog: 236,
}

/** Bytes to each replica: `256 in flight on Cluster`. */
export const replicatedBytesPerDecision = 128

/**
 * Memory of Redis. At a million keys, when its hash table is nearly full, a key takes 113, 145, 145
 * and 241 bytes. Right after the table has doubled, it takes 32 bytes more. A sliding log has one
 * entry here.
 */
export const bytesPerKey: PerAlgorithm = {
  tokenBucket: 145,
  slidingWindow: 177,
  fixedWindow: 177,
  slidingLog: 273,
}

/** Memory of each further entry of a sliding log. */
export const bytesPerLogEntry = 16
