/**
 * When the machine let processes wait: a process that has nothing to do notes how late its timers
 * come, and how long others were ready to run and did not get a processor. Time that a process
 * spends on its own work is no stall, so that nobody is excused for being slow.
 */

import { once } from 'node:events'
import { join } from 'node:path'
import { forkAt, nextMessage } from '../faults/fork-at.ts'
import { here } from '../servers/place.ts'

/** On the axis of `machineNowMs`. */
export interface Stall {
  readonly fromMs: number
  readonly toMs: number
}

export interface StallWatch {
  /** All since the start, in the order of their ends. */
  stalls(): Promise<readonly Stall[]>
  stop(): Promise<void>
}

/** `pids` are those of the processes that are watched besides. */
export async function startStallWatch(pids: readonly number[]): Promise<StallWatch> {
  const child = forkAt(here, join(import.meta.dirname, 'stall-watch-worker.ts'), pids)
  await nextMessage(child)
  return {
    stalls: () => {
      child.send('tell')
      return nextMessage(child) as Promise<readonly Stall[]>
    },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = once(child, 'exit')
      child.disconnect()
      await ended
    },
  }
}

/** How much of the time between two moments the machine stalled; what overlaps counts once. */
export function stalledMs(stalls: readonly Stall[], startMs: number, endMs: number): number {
  const within = stalls
    .filter(({ fromMs, toMs }) => toMs > startMs && fromMs < endMs)
    .sort((one, other) => one.fromMs - other.fromMs)
  let sumMs = 0
  let reachedMs = startMs
  for (const { fromMs, toMs } of within) {
    const untilMs = Math.min(toMs, endMs)
    if (untilMs <= reachedMs) continue
    sumMs += untilMs - Math.max(fromMs, reachedMs)
    reachedMs = untilMs
  }
  return sumMs
}
