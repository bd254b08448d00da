/**
 * The two suites. `./run.sh test` is quick: a change is worth waiting for it. `./run.sh test-soak`
 * runs the files named `*.soak.test.ts`, and those only. Such a file holds tests of its own, or it
 * imports another test file, whose tests then run with the larger of the sizes below.
 */

import { randomInt } from 'node:crypto'

/** Set by `./run.sh test-soak`. */
export const isSoak = process.env.TIDEGATE_SOAK === '1'

const SEED_QUICK = 20_240_607
const SEED_MAX = 2 ** 31 - 1

/**
 * Where random tests start from. The quick suite does the same at every run. The soak suite looks
 * elsewhere each time; `TIDEGATE_SEED` repeats one of its runs.
 */
export const seed = seedOfRun()

/** One for all processes of a run, which inherit it from the first. */
function seedOfRun(): number {
  if (process.env.TIDEGATE_SEED === undefined) {
    process.env.TIDEGATE_SEED = String(isSoak ? randomInt(SEED_MAX) : SEED_QUICK)
    if (isSoak) console.info(`TIDEGATE_SEED=${process.env.TIDEGATE_SEED}`)
  }
  return Number(process.env.TIDEGATE_SEED)
}

const sized = <T>(quick: T, soak: T): T => (isSoak ? soak : quick)

export const sizes = {
  /** Of each property, where it does not say itself. The quick number is fast-check's own. */
  randomRuns: sized(100, 2_000),
  /** Of hundreds of steps, for each of six limits that four processes share. */
  leasedHistories: sized(30, 300),
  /** Of 32 histories, for each of nine kinds. Known differences showed within three of them. */
  equivalenceCohorts: sized(6, 30),
  /** Counters whose memory is measured. Bytes per key are alike from 100,000 on. */
  measuredKeys: sized(100_000, 1_000_000),
  /** Requests in each of 200 logs whose memory is measured: one block of a list, and more. */
  measuredRequests: sized(300, 1_000),
  /** Keys of 5,000 units that four processes use up. The first ones are the hottest. */
  hotKeys: sized(8, 40),
  /** How long clients that break off come, in each of three protocols: some hundreds a second. */
  vanishingMs: sized(1_500, 15_000),
  /**
   * Measurements of time depend on what else a machine does. The quick suite finds what is wrong by
   * far, beside any other work; the soak suite needs a machine that is not busy. The figures of
   * docs/reliability.md have stricter bounds, of their own.
   */
  lateShareMax: sized(0.05, 0.01),
  atOnceShareMin: sized(0.5, 0.8),
  /** A policy that is read where requests are served holds them up for seconds. */
  heldMsMax: sized(500, 150),
  /** Rounds in which four processes use up a limit together; the bucket has more of them. */
  sharedRounds: sized(6, 20),
  sharedRoundsOfBuckets: sized(20, 100),
  /** After Redis was killed: until the breaker is open, and until decisions are normal again. */
  breakerOpenMsMax: sized(5_000, 2_000),
  normalAgainMsMax: sized(10_000, 5_000),
  /** Calls until code is compiled, and again as many; and while Redis is away. 1,000 a second. */
  callsBeforeFault: sized(500, 1_000),
  callsDuringFault: sized(1_500, 3_000),
}
