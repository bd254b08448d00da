/**
 * The replayed traffic: keys by Zipf's law. `steady` requests are independent. `bursty` ones come
 * in threes, and every key pauses for seconds, which is where algorithms differ. The same seed
 * gives the same trace in every process.
 */

import { sequence } from '../load/draws.ts'

export interface Trace {
  readonly length: number
  /** The rank of each decision's key; 0 is the most frequent. */
  readonly keys: Uint16Array
  /** Milliseconds since the start, never decreasing. */
  readonly timesMs: Uint32Array
}

export interface TraceOptions {
  readonly decisions: number
  /** At most 65,536. */
  readonly keys: number
  readonly durationMs: number
  readonly kind: TraceKind
  readonly seed: number
}

export type TraceKind = 'steady' | 'bursty'

export const ZIPF_EXPONENT = 1.1

/** The mean number of requests of a bursty trace that arrive together for one key. */
const BURST_MEAN = 3

/**
 * The length of an active or silent phase of a key in a bursty trace; half of the phases are
 * silent.
 */
const SILENCE_MS = 3_000

/** The largest number of draws for one request, so that drawing ends if many keys are silent. */
const DRAWS_MAX = 16

export function makeTrace({ decisions, keys, durationMs, kind, seed }: TraceOptions): Trace {
  const burstMean = kind === 'bursty' ? BURST_MEAN : 1
  const random = sequence(seed)
  const sums = zipfSums(keys)
  const trace = { keys: new Uint16Array(decisions), timesMs: new Uint32Array(decisions) }
  const gapMs = (durationMs * burstMean) / decisions
  let nowMs = 0
  for (let at = 0; at < decisions; ) {
    nowMs -= Math.log(1 - random()) * gapMs
    const key = kind === 'bursty' ? drawActive(sums, nowMs, random) : draw(sums, random)
    do {
      trace.keys[at] = key
      trace.timesMs[at] = nowMs
      at++
    } while (at < decisions && random() > 1 / burstMean)
  }
  return { length: decisions, ...trace }
}

function zipfSums(keys: number): Float64Array {
  const sums = new Float64Array(keys)
  let sum = 0
  for (let rank = 0; rank < keys; rank++) {
    sum += 1 / (rank + 1) ** ZIPF_EXPONENT
    sums[rank] = sum
  }
  return sums
}

function drawActive(sums: Float64Array, nowMs: number, random: () => number): number {
  const stretch = Math.floor(nowMs / SILENCE_MS)
  for (let draws = 1; ; draws++) {
    const key = draw(sums, random)
    if (isActive(key, stretch) || draws === DRAWS_MAX) return key
  }
}

function draw(sums: Float64Array, random: () => number): number {
  return rankOf(sums, random() * (sums.at(-1) as number))
}

/** Decided by a hash, which needs no memory per key. */
function isActive(key: number, stretch: number): boolean {
  let hash = Math.imul(key + 1, 0x9e3779b1) ^ Math.imul(stretch + 1, 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
  return ((hash ^ (hash >>> 13)) & 64) === 0
}

function rankOf(sums: Float64Array, point: number): number {
  let [low, high] = [0, sums.length - 1]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((sums[middle] as number) < point) low = middle + 1
    else high = middle
  }
  return low
}
