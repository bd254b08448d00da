/** Response times of several limiters during outages of Redis. */

import { packageVersion, redisVersion } from './harness/machine.ts'
import type { Part, Run } from './harness/part.ts'
import { median } from './harness/rounds.ts'
import {
  ON_TIME_MS,
  type OutageFigure,
  outageNames,
  type Scenario,
  scenarios,
} from './parts/outage/figures.ts'
import { type OutageTimes, runScenario } from './parts/outage/scenario.ts'

export const part: Part = {
  name: 'outage',
  title: 'When Redis is killed, stopped or slow',
  compares:
    'Each limiter runs in a separate process with 200 requests per second over 1,000 keys. All ' +
    'use the same Redis server at the same time. The server is killed and restarted, stopped ' +
    '(SIGSTOP) and continued, or 200 ms away. All limiters are configured to continue without ' +
    'Redis: Tidegate by `onStoreError: open`, its default, rate-limiter-flexible by an insurance ' +
    'limiter, express-rate-limit by `passOnStoreError`. The client is ioredis with its default ' +
    'options, unless the row names others.',
  async run(run) {
    run.uses('Redis', redisVersion())
    for (const name of packages) run.uses(name, packageVersion(name) ?? 'unknown')
    const times = run.isQuick ? quickTimes : fullTimes
    const find = async (scenario: Scenario): Promise<Found> => ({
      ...scenario,
      figures: await runScenario(run, scenario, times),
    })
    // Concurrent scenarios disturb one another, which is acceptable in a quick run.
    const found = run.isQuick ? await Promise.all(scenarios.map(find)) : []
    if (!run.isQuick) for (const scenario of scenarios) found.push(await find(scenario))
    report(run, found, times)
    run.note(
      'Tidegate responds within its deadline of 15 ms, and does not contact Redis while its ' +
        'circuit breaker is open. Its recovery depends on the interval between two attempts ' +
        'of the breaker.',
    )
  },
}

interface Found {
  readonly name: string
  readonly title: string
  /** The figures of every limiter, one per outage. */
  readonly figures: ReadonlyMap<string, readonly OutageFigure[]>
}

const packages = ['ioredis', 'rate-limiter-flexible', 'express-rate-limit', 'rate-limit-redis']

const fullTimes: OutageTimes = { rounds: 3, warmUpMs: 2_000, outageMs: 5_000, afterMs: 4_000 }
const quickTimes: OutageTimes = { rounds: 1, warmUpMs: 500, outageMs: 1_000, afterMs: 1_200 }

const OURS = 'Tidegate'
const peers = ['rate-limiter-flexible', 'express-rate-limit']

/** The measures that are compared: a title, and the figure of one outage. */
const measures = [
  {
    name: 'response',
    unit: 'ms to the first response',
    of: ({ firstMs }: OutageFigure) => firstMs,
  },
  {
    name: 'recovery',
    unit: 'ms until Redis counts again',
    of: ({ sharedAgainMs, watchedMs }: OutageFigure) => sharedAgainMs ?? watchedMs,
  },
]

function report(run: Run, found: readonly Found[], { outageMs }: OutageTimes): void {
  const seconds = outageMs / 1_000
  for (const { name: measure, unit, of } of measures) {
    for (const peer of peers) {
      for (const { name, title, figures } of found) {
        const theirs = figures.get(peer) ?? []
        run.compared({
          name: `outage-${name}-${measure}-${peer}`,
          what: `${title} for ${seconds} s`,
          ours: OURS,
          peer,
          unit,
          isLessBetter: true,
          rounds: (figures.get(OURS) ?? []).map((own, at) => ({
            ours: of(own),
            peer: of(theirs[at] as OutageFigure),
          })),
          ...(measure === 'recovery' && {
            reason:
              'The peer lets requests wait for Redis and continues immediately; our circuit ' +
              'breaker waits between two attempts.',
          }),
        })
      }
    }
  }
  for (const each of found) scenarioTable(run, each, seconds)
  run.chart({
    name: 'outage',
    title: `Redis is away for ${seconds} s: time to the first response`,
    kind: 'bars',
    xLabel: 'outage',
    yLabel: 'milliseconds from the beginning of the outage',
    series: [OURS, ...peers].map((name) => ({
      name,
      isOurs: name === OURS,
      points: found.map(({ title, figures }) => ({
        x: title,
        y: Math.round(medianOf(figures.get(name) ?? [], ({ firstMs }) => firstMs)),
      })),
    })),
  })
}

function scenarioTable(run: Run, { name, title, figures }: Found, seconds: number): void {
  run.table({
    name: `outage-${name}`,
    title: `${title} for ${seconds} s, in ms, medians of the outages`,
    columns: [
      { name: 'first response', digits: 0 },
      { name: 'longest wait', digits: 0 },
      { name: `% of requests within ${ON_TIME_MS} ms`, digits: 1 },
      { name: 'Redis counts again after', digits: 0 },
    ],
    rows: outageNames.map((limiter) => {
      const all = figures.get(limiter) ?? []
      const isBack = all.every(({ sharedAgainMs }) => sharedAgainMs !== undefined)
      return {
        name: limiter,
        isOurs: limiter.startsWith(OURS),
        cells: [
          medianOf(all, ({ firstMs }) => firstMs),
          medianOf(all, ({ longestMs }) => longestMs),
          medianOf(all, ({ onTimeShare }) => onTimeShare * 100),
          isBack ? medianOf(all, ({ sharedAgainMs }) => sharedAgainMs ?? 0) : 'not seen',
        ],
      }
    }),
  })
}

function medianOf(all: readonly OutageFigure[], of: (figure: OutageFigure) => number): number {
  return median(all.map(of))
}
