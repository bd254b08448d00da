/**
 * Decisions in memory. Each situation runs in a process of its own, as an application would, and
 * the limiters take turns in it.
 */

import { fork } from 'node:child_process'
import { packageVersion } from './harness/machine.ts'
import type { Part, Run } from './harness/part.ts'
import { median } from './harness/rounds.ts'
import type { MemoryMessage, MemoryPlan } from './parts/memory/situation.ts'
import { nestThrottler } from './peers/nest-throttler.ts'
import { peerProgram } from './peers/peer-program.ts'

export const part: Part = {
  name: 'memory',
  title: 'Decisions in memory',
  compares:
    'Decisions per second over 10,000 keys in one process: `checkSync` and `await check` ' +
    "against rate-limiter-flexible's `RateLimiterMemory`, which has no synchronous call. Three " +
    'situations: a flood, where 90 of 100 calls for a key are denied; a mix, where half of ' +
    'them are; and a limit so high that none is. And the mix once more by sliding logs, which ' +
    "is what NestJS's `ThrottlerStorageService` keeps: ours against that. `evaluate`, which " +
    'every middleware calls, is compared with `check`.',
  async run(run) {
    run.uses('rate-limiter-flexible', packageVersion('rate-limiter-flexible') ?? 'unknown')
    const found: Found[] = []
    for (const situation of situations) {
      const figures = await inProcess(run, situation)
      found.push({ situation, figures })
      for (const { name, ours, aim } of calls) compare(run, { situation, figures }, name, ours, aim)
      compareEvaluate(run, { situation, figures })
    }
    report(run, found)
    await compareLogs(run)
    run.note(
      'The floor is what no limiter can do without: reading the clock and finding the key. ' +
        'If nothing is denied, that alone is most of a decision, and no limiter can be faster.',
    )
  },
}

interface Situation {
  readonly name: string
  readonly title: string
  readonly limit: number
  /**
   * Calls per key in one round. A round takes far less than a minute, so this sets how many are
   * denied.
   */
  readonly callsPerKey: number
}

type Figures = Readonly<Record<string, readonly number[]>>

interface Found {
  readonly situation: Situation
  readonly figures: Figures
}

const situations: readonly Situation[] = [
  { name: 'flood', title: 'a flood: 90 of 100 calls are denied', limit: 10, callsPerKey: 100 },
  { name: 'mix', title: 'a mix: 100 of 200 calls are denied', limit: 100, callsPerKey: 200 },
  {
    name: 'admitted',
    title: 'none is denied',
    limit: 1_000_000,
    callsPerKey: 100,
  },
]

const logs: Situation = {
  name: 'log',
  title: 'sliding logs, a mix: 100 of 200 calls are denied',
  limit: 100,
  callsPerKey: 200,
}

const PEER = 'rate-limiter-flexible'
const FLOOR = 'the floor'

const CHECK = 'Tidegate check'
const EVALUATE = 'Tidegate evaluate'

const calls = [
  { name: 'sync', ours: 'Tidegate checkSync', aim: 5 },
  { name: 'async', ours: CHECK, aim: 2 },
] as const

/** Runs fewer rounds, because every call of the peer goes through all hits of its key. */
async function compareLogs(run: Run): Promise<void> {
  const throttler = await peerProgram(run, nestThrottler)
  if (throttler === undefined) return
  const figures = await inProcess(run, logs, { throttler, ...(!run.isQuick && { rounds: 5 }) })
  for (const { name, ours } of calls) {
    run.compared({
      name: `memory-${logs.name}-${name}`,
      what: logs.title,
      ours,
      peer: nestThrottler.name,
      unit: 'decisions per second',
      rounds: roundsOf(figures, ours, nestThrottler.name),
    })
  }
}

function inProcess(
  run: Run,
  { title, limit, callsPerKey }: Situation,
  others: Partial<MemoryPlan> = {},
): Promise<Figures> {
  const size = run.isQuick ? { keys: 1_000, rounds: 2 } : { keys: 10_000, rounds: 7 }
  const plan: MemoryPlan = { ...size, limit, callsPerKey, ...others }
  const program = new URL('./parts/memory/situation.ts', import.meta.url)
  const child = fork(program, [JSON.stringify(plan)])
  run.onStop(() => child.kill())
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`a situation ended with exit code ${code}`)))
    child.on('message', (message: MemoryMessage) => {
      if ('figures' in message) resolve(message.figures)
      else run.progress(`${title}: ${message.progress}`)
    })
  })
}

function compare(
  run: Run,
  { situation, figures }: Found,
  name: string,
  ours: string,
  aim: number,
): void {
  const peers = figures[PEER] ?? []
  run.compared({
    name: `memory-${situation.name}-${name}`,
    what: situation.title,
    ours,
    peer: PEER,
    unit: 'decisions per second',
    rounds: roundsOf(figures, ours, PEER),
    aim,
    reason:
      'Reading the clock and finding the key, which no limiter can do without, would by ' +
      'themselves be ' +
      `${(median(figures[FLOOR] ?? []) / median(peers)).toFixed(1)} times the peer.`,
  })
}

/** Middlewares call `evaluate`, so it must not miss the fast path of `check`. */
function compareEvaluate(run: Run, { situation, figures }: Found): void {
  run.compared({
    name: `memory-${situation.name}-evaluate`,
    what: situation.title,
    ours: EVALUATE,
    peer: CHECK,
    unit: 'decisions per second',
    rounds: roundsOf(figures, EVALUATE, CHECK),
    aim: 0.8,
    reason: '`evaluate` also returns the limits that applied, which takes three more objects.',
  })
}

function roundsOf(figures: Figures, ours: string, peer: string) {
  const peers = figures[peer] ?? []
  return (figures[ours] ?? []).map((own, at) => ({ ours: own, peer: peers[at] ?? Number.NaN }))
}

function report(run: Run, found: readonly Found[]): void {
  const names = [...calls.map(({ ours }) => ours), EVALUATE, PEER, FLOOR]
  const isOurs = (name: string) => name.startsWith('Tidegate')
  const perSecond = ({ figures }: Found, name: string) => median(figures[name] ?? [])
  run.table({
    name: 'memory',
    title: 'Decisions per second, medians',
    columns: found.map(({ situation }) => ({ name: situation.title, digits: 0 })),
    rows: names.map((name) => ({
      name,
      isOurs: isOurs(name),
      cells: found.map((each) => perSecond(each, name)),
    })),
  })
  run.chart({
    name: 'memory',
    title: 'Decisions per second in memory',
    kind: 'bars',
    xLabel: 'situation',
    yLabel: 'decisions per second, one process, 10,000 keys',
    series: names
      .filter((name) => name !== FLOOR)
      .map((name) => ({
        name,
        isOurs: isOurs(name),
        points: found.map((each) => ({ x: each.situation.title, y: perSecond(each, name) })),
      })),
  })
}
