/**
 * The two suites. `./run.sh test` is quick: a change is worth waiting for it. `./run.sh test-soak`
 * runs the files named `*.soak.test.ts`, and those only. Such a file holds tests of its own, or it
 * imports another test file, whose tests then run with the larger of the sizes below.
 */

import { randomInt } from 'node:crypto'

/** Set by `./run.sh test-soak`. */
export const isSoak = process.env.TIDEGATE_SOAK === '1'

const SEED = 20_240_607
const SEED_MAX = 2 ** 31 - 1

/**
 * The seed of random tests. It is the same in every run, so that a change is judged by what it
 * changes and not by the luck of the draw. `TIDEGATE_SEED=random` draws a new one, to search for
 * rare errors, and a number repeats such a run.
 */
export const seed = seedOfRun()

/** One seed for all processes of a run, which inherit it from the first. */
function seedOfRun(): number {
  if (process.env.TIDEGATE_SEED === 'random') {
    process.env.TIDEGATE_SEED = String(randomInt(SEED_MAX))
    console.info(`TIDEGATE_SEED=${process.env.TIDEGATE_SEED}`)
  }
  return Number(process.env.TIDEGATE_SEED ?? SEED)
}

const sized = <T>(quick: T, soak: T): T => (isSoak ? soak : quick)

/** How long each comparison with other servers runs; a longer run finds rarer differences. */
const fuzzMs = (quick: number, soak: number) =>
  process.env.TIDEGATE_FUZZ_SECONDS === undefined
    ? sized(quick, soak)
    : Number(process.env.TIDEGATE_FUZZ_SECONDS) * 1_000

export const sizes = {
  /** About 250 streams per second, each to three servers. Frames are in the soak suite only. */
  http1FuzzMs: fuzzMs(2_500, 100_000),
  http2FuzzMs: fuzzMs(80_000, 80_000),
  /** Requests, and responses, that are read as node:http reads them. A third of them is valid. */
  comparedShapes: sized(900, 3_000),
  /** Runs of each property that sets no number itself. The quick number is fast-check's default. */
  randomRuns: sized(100, 2_000),
  /** Runs of each mode of regions: 2 to 4 ms each. */
  simulatedSeeds: sized(200, 10_000),
  /** Histories of hundreds of steps, for each of six limits that four processes share. */
  leasedHistories: sized(20, 200),
  /**
   * Cohorts of 32 histories, for each of nine kinds. Known differences showed within three cohorts.
   */
  equivalenceCohorts: sized(3, 20),
  /** Counters whose memory is measured. Bytes per key are alike from 100,000 on. */
  measuredKeys: sized(100_000, 1_000_000),
  /** Keys that a client makes up, twice as many in the soak suite as a memory store keeps. */
  floodKeys: sized(200_000, 2_000_000),
  /** Keys of 5,000 units that four processes spend. The first ones are the hottest. */
  hotKeys: sized(8, 40),
  /** Bursts of two seconds on a Cluster. */
  clusterBursts: sized(1, 8),
  /** The duration of a load in a process that is stopped repeatedly. */
  stoppedLoadMs: sized(2_000, 10_000),
  /** Few enough that each key is called more often than its limit within that time. */
  stoppedKeys: sized(1_000, 25_000),
  /** Duration of disconnecting clients in each of three protocols: hundreds per second. */
  vanishingMs: sized(800, 15_000),
  /**
   * Measurements of time depend on the machine, which may be taken away for half a second at any
   * time. After such a stall, a store has more time for a second, so that every check that waits
   * for a deadline is late. Both suites find gross errors only, such as calls that wait for the
   * client's own timeout. The figures of docs/reliability.md have strict bounds of their own.
   */
  lateShareMax: 0.5,
  atOnceShareMin: 0.5,
  /** A policy that is parsed in the serving thread delays requests for seconds. */
  heldMsMax: 1_000,
  /** Rounds in which four processes spend a limit together; the bucket has more of them. */
  sharedRounds: sized(4, 20),
  sharedRoundsOfBuckets: sized(12, 100),
  /** After a kill of Redis: the time to an open breaker, and to normal decisions. Also gross. */
  breakerOpenMsMax: 10_000,
  normalAgainMsMax: 20_000,
  /** Calls until code is compiled, and as many again; and during the outage. 1,000 per second. */
  callsBeforeFault: sized(500, 1_000),
  callsDuringFault: sized(1_500, 3_000),
}
