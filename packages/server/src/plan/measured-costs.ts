/**
 * What things cost, as `./run.sh bench cost` measured it on two cores of an AMD EPYC, with Node 24
 * and Redis 7.0; rounded up. Other machines have other figures: `tidegate plan` takes them as
 * options, and this is the one file to change where they are measured anew.
 */

export const plannedAlgorithms = [
  'tokenBucket',
  'slidingWindow',
  'fixedWindow',
  'slidingLog',
] as const

export type PlannedAlgorithm = (typeof plannedAlgorithms)[number]

type PerAlgorithm = Readonly<Record<PlannedAlgorithm, number>>

/** Of the gateway, for a request with one limit: `one process, 64 connections`. */
export const gatewayUsPerRequest = 40

/** Of Redis, where all gateways ask the same server: `16 connections, 8 in flight`. */
export const singleUsPerDecision: PerAlgorithm = {
  tokenBucket: 7,
  slidingWindow: 7,
  fixedWindow: 6,
  slidingLog: 20,
}

/** Of a shard of many, to which each gateway sends little: `64 connections, 1 in flight`. */
export const shardUsPerDecision: PerAlgorithm = {
  tokenBucket: 19,
  slidingWindow: 21,
  fixedWindow: 20,
  slidingLog: 36,
}

/** Of Redis, for a key that a gateway answers from a block of units: `one hot key`. */
export const hotUsPerDecision = 0.01

/** To and from Redis, for a decision that travels alone. */
export const wireBytesPerDecision: PerAlgorithm = {
  tokenBucket: 127,
  slidingWindow: 148,
  fixedWindow: 144,
  slidingLog: 236,
}

/** To each replica: `256 in flight on Cluster`. */
export const replicatedBytesPerDecision = 128

/**
 * Of Redis. Measured are 113, 145, 145 and 241 at a million keys, when its table of keys is nearly
 * full; right after that has doubled, 32 more. Of a sliding log, with one entry.
 */
export const bytesPerKey: PerAlgorithm = {
  tokenBucket: 145,
  slidingWindow: 177,
  fixedWindow: 177,
  slidingLog: 273,
}

/** What each further request that a sliding log admits adds to its key. */
export const bytesPerLogEntry = 16
