/**
 * How often a decision is wrong. Compared with the definition of its algorithm, never. Compared
 * with the true count of the trailing period, it shows the price of an approximation. Several
 * processes on one Redis show the price of each `accuracy`.
 */

import {
  type Accuracy,
  fixedWindow,
  type Limit,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from 'tidegate'
import { startRedis } from '../test/support/servers/redis.ts'
import { packageVersion } from './harness/machine.ts'
import type { Part, Run } from './harness/part.ts'
import { boundaryChart } from './parts/accuracy/boundary.ts'
import {
  fixedWindowOracle,
  type Oracle,
  type Rule,
  slidingLogOracle,
  slidingWindowOracle,
  tokenBucketOracle,
} from './parts/accuracy/oracles.ts'
import { type CountedAll, countAll, type Replayed, replay } from './parts/accuracy/replay.ts'
import { type SharedErrors, startShared } from './parts/accuracy/shared.ts'
import { makeTrace, type TraceKind } from './parts/accuracy/trace.ts'
import type { SharedAlgorithm, SharedContender } from './parts/accuracy/worker.ts'

export const part: Part = {
  name: 'accuracy',
  title: 'How often a decision is wrong',
  compares:
    'Replayed traces of requests for keys by Zipf’s law (exponent 1.1): in memory in virtual ' +
    'time against oracles that are written independently of the library, and from four ' +
    'processes on one Redis against the budget of each key.',
  async run(run) {
    await inMemory(run)
    await onRedis(run)
    run.chart(boundaryChart())
    remark(run)
  },
}

/** The limit of every key. The most frequent of 10,000 keys ask for hundreds of times as much. */
const RULE: Rule = { limit: 100, perMs: 10_000 }

const DURATION_MS = 500_000

const algorithms: Readonly<Record<string, { readonly limit: Limit; oracle(rule: Rule): Oracle }>> =
  {
    tokenBucket: { limit: tokenBucket(options()), oracle: tokenBucketOracle },
    slidingWindow: { limit: slidingWindow(options()), oracle: slidingWindowOracle },
    slidingLog: { limit: slidingLog(options()), oracle: slidingLogOracle },
    fixedWindow: { limit: fixedWindow(options()), oracle: fixedWindowOracle },
  }

function options() {
  return { limit: RULE.limit, per: `${RULE.perMs}ms` } as const
}

interface Row<Result> {
  readonly trace: TraceKind
  readonly algorithm: string
  readonly result: Result
}

async function inMemory(run: Run): Promise<void> {
  const decisions = run.isQuick ? 200_000 : 10_000_000
  const keys = run.isQuick ? 2_000 : 10_000
  const rows: Row<Replayed>[] = []
  const counted: Row<CountedAll>[] = []
  for (const kind of ['steady', 'bursty'] as const) {
    const trace = makeTrace({ decisions, keys, durationMs: DURATION_MS, kind, seed: 1 })
    const pauseOf = (what: string) => async () => {
      run.progress(`${kind} trace: ${what}`)
      await new Promise((resolve) => setImmediate(resolve))
    }
    for (const [algorithm, { limit, oracle }] of Object.entries(algorithms)) {
      const result = await replay(trace, RULE, limit, oracle, pauseOf(algorithm))
      rows.push({ trace: kind, algorithm, result })
    }
    const result = await countAll(trace, RULE, pauseOf('all requests counted'))
    counted.push({ trace: kind, algorithm: 'slidingWindow', result })
  }
  ownDefinitionTable(run, rows)
  truthTable(run, rows)
  countedTable(run, counted)
}

function ownDefinitionTable(run: Run, rows: readonly Row<Replayed>[]): void {
  run.table({
    name: 'accuracy-own-definition',
    title: 'Each algorithm against its own definition, in exact arithmetic',
    columns: [
      { name: 'decisions' },
      { name: 'wrongly admitted' },
      { name: 'wrongly refused' },
      { name: 'wrong `remaining`' },
    ],
    rows: rows.map(({ trace, algorithm, result: { decisions, own } }) => ({
      name: `${algorithm}, ${trace}`,
      isOurs: true,
      cells: [decisions, own.wronglyAdmitted, own.wronglyRefused, own.wrongRemaining],
    })),
  })
}

function truthTable(run: Run, rows: readonly Row<Replayed>[]): void {
  const admittedByLog = (trace: TraceKind) =>
    rows.find((row) => row.trace === trace && row.algorithm === 'slidingLog')?.result.admitted ?? 0
  run.table({
    name: 'accuracy-trailing-window',
    title: 'Each algorithm against the true count of the last 10 s',
    columns: [
      { name: 'decisions' },
      { name: 'wrongly admitted, %', digits: 3 },
      { name: 'wrongly refused, %', digits: 3 },
      { name: 'room then, mean', digits: 1 },
      { name: 'most within 10 s' },
      { name: 'admitted beyond the log, %', digits: 3 },
      { name: 'mean error of the rate, %', digits: 2 },
    ],
    rows: rows.map(({ trace, algorithm, result }) => ({
      name: `${algorithm}, ${trace}`,
      isOurs: true,
      cells: [
        result.decisions,
        (100 * result.truth.wronglyAdmitted) / result.decisions,
        (100 * result.truth.wronglyRefused) / result.decisions,
        result.truth.wronglyRefused === 0 ? undefined : result.roomWhenRefused,
        result.most,
        100 * (result.admitted / admittedByLog(trace) - 1),
        100 * result.rateError,
      ],
    })),
  })
}

function countedTable(run: Run, rows: readonly Row<CountedAll>[]): void {
  run.table({
    name: 'accuracy-all-counted',
    title: 'slidingWindow as a counter of all requests: above 100 in the last 10 s, or not',
    columns: [
      { name: 'decisions' },
      { name: 'wrongly below, %', digits: 4 },
      { name: 'wrongly above, %', digits: 4 },
      { name: 'mean error of the rate, %', digits: 2 },
    ],
    rows: [
      ...rows.map(({ trace, result }) => ({
        name: `ours, ${trace}`,
        isOurs: true,
        cells: [
          result.decisions,
          (100 * result.wronglyAdmitted) / result.decisions,
          (100 * result.wronglyRefused) / result.decisions,
          100 * result.rateError,
        ],
      })),
      {
        name: 'Cloudflare, as published',
        isOurs: false,
        cells: [400_000_000, '0.003 with wrongly above', 'no client', 6],
      },
    ],
  })
}

const PROCESSES = 4
const BUDGET = 1_000

interface SharedRow {
  readonly name: string
  readonly contender: SharedContender
  /** Decisions in a full run; fewer for slow modes, so that the run ends. */
  readonly decisions: number
}

const sharedRows: readonly SharedRow[] = [
  ours('tokenBucket', 'exact', 1_000_000),
  ours('tokenBucket', 'leased', 1_000_000),
  ours('tokenBucket', 'synced', 1_000_000),
  ours('slidingWindow', 'exact', 200_000),
  ours('slidingWindow', 'leased', 1_000_000),
  ours('fixedWindow', 'exact', 200_000),
  ours('fixedWindow', 'leased', 1_000_000),
  ours('slidingLog', 'exact', 200_000),
  {
    name: 'rate-limiter-flexible',
    contender: { library: 'rate-limiter-flexible' },
    decisions: 200_000,
  },
]

function ours(algorithm: SharedAlgorithm, accuracy: Accuracy, decisions: number): SharedRow {
  const contender = { library: 'tidegate', algorithm, accuracy } as const
  return { name: `${algorithm}, ${accuracy}`, contender, decisions }
}

async function onRedis(run: Run): Promise<void> {
  run.uses('rate-limiter-flexible', packageVersion('rate-limiter-flexible') ?? 'unknown')
  const server = await startRedis()
  run.onStop(() => server.stop())
  const shared = startShared(server.url, PROCESSES)
  run.onStop(() => shared.stop())
  const results: (SharedRow & { readonly errors: SharedErrors })[] = []
  for (const [at, row] of sharedRows.entries()) {
    run.progress(`${PROCESSES} processes on one Redis: ${row.name}`)
    // A short run has as many decisions per key, so that it spends its budgets too.
    const decisions = run.isQuick ? row.decisions / 50 : row.decisions
    const keys = run.isQuick ? 200 : 5_000
    const limit = run.isQuick ? BUDGET / 2 : BUDGET
    const trace = { decisions, keys, durationMs: DURATION_MS, kind: 'steady', seed: 2 } as const
    const plan = { prefix: `bench${at}`, contender: row.contender, limit, trace }
    results.push({ ...row, errors: await shared.run(plan) })
  }
  run.table({
    name: 'accuracy-shared',
    title: 'Four processes after the same budgets on one Redis',
    columns: [
      { name: 'decisions' },
      { name: 'wrongly admitted' },
      { name: 'wrongly refused' },
      { name: 'never spent' },
      { name: 'mean error, %', digits: 3 },
      { name: 'without Redis' },
    ],
    rows: results.map(({ name, contender, errors }) => ({
      name,
      isOurs: contender.library === 'tidegate',
      cells: [
        errors.decisions,
        errors.wronglyAdmitted,
        errors.wronglyRefused,
        errors.unspent,
        100 * errors.rateError,
        errors.degraded,
      ],
    })),
  })
}

function remark(run: Run): void {
  for (const sentences of notes) run.note(sentences.join(' '))
}

const notes: readonly (readonly string[])[] = [
  [
    'In memory, time is virtual: 500 s, 10,000 keys, each with a limit of 100 per 10 s. In a',
    'steady trace requests come independently; in a bursty one they come in threes, and every',
    'key is silent for half of the time, three seconds or more at once.',
  ],
  [
    'Against its own definition every algorithm has to be right every time, in what it decides',
    'and in what it says is left.',
  ],
  [
    'Against the true count, wrongly admitted is what was admitted although 100 had been within',
    'the last 10 s, wrongly refused what was refused although there were fewer, and the error of',
    'the rate is |counted − true| / true, where true is what the algorithm itself has admitted',
    'within 10 s. tokenBucket promises something else, a burst of 100 and 100 more per 10 s, and',
    'so has up to 199; fixedWindow has up to 200 around an edge.',
  ],
  [
    'slidingWindow weighs the previous window as if it had been filled evenly. A key that asks',
    'for many times its limit is then often held a little below it, and every request that is',
    'refused meanwhile counts as wrongly refused. The room then is how many units were free.',
    'What it admits in all is within a percent of the log.',
  ],
  [
    'Cloudflare counts all requests, also those that it refuses, and published for its sliding',
    'window counter: 400 million requests of 270,000 sources, 0.003 % wrongly admitted or',
    'refused, 6 % mean difference between real and approximate rate, no source refused that was',
    'below its limit. Most of its sources are far from their limit; in these traces many are',
    'close to it.',
  ],
  [
    'On Redis, each of 5,000 keys has a budget of 1,000 that does not refill. A refusal counts as',
    'wrong if it was answered before the admitted requests had asked for the whole budget. With',
    '`leased`, such refusals came while the last units were leased to another process. Units that',
    'were still leased when the trace ended were never spent.',
  ],
  [
    '`synced` is wrong by design: it counts in each process and reports every 100 ms; what comes',
    'to all processes in between is admitted beyond the limit.',
  ],
]
