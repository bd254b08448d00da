/**
 * How the state of each algorithm is stored in the three number cells of a slot. The log is not a
 * row of numbers; its slot has an object.
 */

import type { AlgorithmName } from '../../algorithms/algorithm.ts'
import type { FixedWindowState } from '../../algorithms/fixed-window.ts'
import type { SlidingWindowState } from '../../algorithms/sliding-window.ts'
import type { TokenBucketState } from '../../algorithms/token-bucket.ts'

export const STATE_CELLS = 3

export interface Codec {
  read(cells: Float64Array, at: number): object
  write(cells: Float64Array, at: number, state: object): void
}

const tokenBucketCodec = {
  read: (cells: Float64Array, at: number): TokenBucketState => ({
    used: cells[at] as number,
    time: cells[at + 1] as number,
    part: cells[at + 2] as number,
  }),
  write(cells: Float64Array, at: number, state: TokenBucketState) {
    cells[at] = state.used
    cells[at + 1] = state.time
    cells[at + 2] = state.part
  },
}

const fixedWindowCodec = {
  read: (cells: Float64Array, at: number): FixedWindowState => ({
    count: cells[at] as number,
    start: cells[at + 1] as number,
  }),
  write(cells: Float64Array, at: number, state: FixedWindowState) {
    cells[at] = state.count
    cells[at + 1] = state.start
  },
}

const slidingWindowCodec = {
  read: (cells: Float64Array, at: number): SlidingWindowState => ({
    previous: cells[at] as number,
    current: cells[at + 1] as number,
    start: cells[at + 2] as number,
  }),
  write(cells: Float64Array, at: number, state: SlidingWindowState) {
    cells[at] = state.previous
    cells[at + 1] = state.current
    cells[at + 2] = state.start
  },
}

const codecs: Record<AlgorithmName, unknown> = {
  tokenBucket: tokenBucketCodec,
  fixedWindow: fixedWindowCodec,
  slidingWindow: slidingWindowCodec,
  slidingLog: undefined,
  concurrency: undefined,
}

export function codecOf(algorithm: AlgorithmName): Codec | undefined {
  return codecs[algorithm] as Codec | undefined
}
