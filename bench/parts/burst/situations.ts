/** Situations of bench/burst.ts: the contenders take turns, each in processes of its own. */

import { join } from 'node:path'
import { type BurstProcess, startBurstProgram } from '../../../test/burst/burst-process.ts'
import { degradedCount } from '../../../test/burst/burst-report.ts'
import type { BurstResult } from '../../../test/burst/burst-run.ts'
import { verdictOf } from '../../harness/figures.ts'
import type { Comparison, Run } from '../../harness/part.ts'
import { median, takeTurns } from '../../harness/rounds.ts'
import {
  type BurstContenderName,
  type ContenderPlan,
  contenderNames,
  OURS,
  PEER,
  YARDSTICK,
} from './plan.ts'

export interface BurstSituation {
  /** The name of the comparison. */
  readonly name: string
  readonly what: string
  /** Units of each key; none is refilled during a burst. */
  readonly limit: number
  readonly keys: number
  readonly asksPerKey: number
  /** Whether each round is the first use in a fresh process. */
  readonly isFirstUse: boolean
  readonly aims: { readonly [PEER]?: number; readonly [YARDSTICK]?: number }
}

export interface BurstFound {
  readonly situation: BurstSituation
  readonly rounds: ReadonlyMap<string, readonly BurstResult[]>
}

const program = join(import.meta.dirname, 'contender.ts')

export async function findBurst(
  run: Run,
  situation: BurstSituation,
  { url, rounds }: { readonly url: string; readonly rounds: number },
): Promise<BurstFound> {
  const { limit, isFirstUse, keys, asksPerKey } = situation
  const start = (contender: BurstContenderName) => {
    const plan: ContenderPlan = { contender, url, limit, isWarm: !isFirstUse }
    return startBurstProgram(program, plan)
  }
  let round = 0
  // Every round has keys of its own, which have no charges yet.
  const burst = (started: BurstProcess) =>
    started.run({ name: `${situation.name}-${round++}`, keys, asksPerKey, pace: 'at-once' })
  const contenders = contenderNames.map((name) => {
    let warm: BurstProcess | undefined
    run.onStop(() => warm?.stop())
    const inWarmProcess = async () => {
      warm ??= await start(name)
      return burst(warm)
    }
    const inFreshProcess = async () => {
      const fresh = await start(name)
      try {
        return await burst(fresh)
      } finally {
        await fresh.stop()
      }
    }
    return { name, run: isFirstUse ? inFreshProcess : inWarmProcess }
  })
  return { situation, rounds: await takeTurns(run, situation.what, contenders, rounds) }
}

export function compareBurst(run: Run, { situation, rounds }: BurstFound): void {
  const { name, aims } = situation
  const own = rounds.get(OURS) ?? []
  // A degraded answer is fast, so the time of such a round is not compared and meets no aim.
  const isExact = faultsOf(own).every((count) => count === 0)
  const what = isExact ? situation.what : `${situation.what} (failed: see the table below)`
  const compared = (peer: typeof PEER | typeof YARDSTICK, ending: string): Comparison => {
    const theirs = rounds.get(peer) ?? []
    const aim = isExact ? aims[peer] : undefined
    return {
      name: `burst-${name}${ending}`,
      what,
      ours: OURS,
      peer,
      unit: 'ms to the last answer',
      isLessBetter: true,
      rounds: own.map(({ elapsedMs }, at) => ({
        ours: elapsedMs,
        peer: theirs[at]?.elapsedMs ?? Number.NaN,
      })),
      ...(aim !== undefined && { aim }),
      reason: peer === YARDSTICK ? reasonBare : reasonPeer,
    }
  }
  run.compared(compared(PEER, ''))
  if (aims[YARDSTICK] !== undefined) run.compared(compared(YARDSTICK, '-bare'))
}

const reasonPeer =
  'The first bursts of a process run code that is not compiled yet, and later ones take half as ' +
  'long. So more bursts in one process would have a higher ratio.'

const reasonBare =
  'One pipeline of bare commands has no promise, deadline or decision object for each call, and ' +
  'its caller has to gather the calls.'

/** Times are medians of the rounds; faults are those of the worst round. */
export function exactnessTable(run: Run, found: readonly BurstFound[]): void {
  run.table({
    name: 'burst-exactness',
    title: 'Decisions of the callers; the aim is none over, none under and none degraded',
    columns: [
      { name: 'ms', digits: 1 },
      { name: 'admitted', digits: 0 },
      { name: 'over', digits: 0 },
      { name: 'under', digits: 0 },
      { name: 'degraded', digits: 0 },
      { name: 'failed', digits: 0 },
      { name: 'longest turn in ms', digits: 1 },
      { name: 'aim' },
    ],
    rows: found.flatMap(({ situation, rounds }) =>
      [...rounds].map(([name, results]) => {
        const faults = faultsOf(results)
        const isExact = faults.every((count) => count === 0)
        return {
          name: `${situation.what}: ${name}`,
          isOurs: name === OURS,
          cells: [
            median(results.map(({ elapsedMs }) => elapsedMs)),
            Math.max(...results.map(({ admitted }) => admitted)),
            ...faults,
            median(results.map(({ longestTurnMs }) => longestTurnMs)),
            // Only rows of ours can miss an aim.
            name === OURS ? verdictOf(isExact) : undefined,
          ],
        }
      }),
    ),
  })
}

/** The counts over, under, degraded and failed, each from its worst round. */
function faultsOf(results: readonly BurstResult[]): readonly number[] {
  const worst = (of: (result: BurstResult) => number) => Math.max(...results.map(of))
  return [
    worst(({ over }) => over),
    worst(({ under }) => under),
    worst(degradedCount),
    worst(({ failures }) => Object.values(failures).reduce((sum, count) => sum + count, 0)),
  ]
}
