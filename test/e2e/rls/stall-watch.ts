/**
 * Records when the machine stalled: an idle process measures how late its timers fire, and how long
 * other processes waited for a processor. Time that a process spends on its own work does not
 * count, so that a slow service is not excused.
 */

import { once } from 'node:events'
import { join } from 'node:path'
import { forkAt, nextMessage, singleThreadedGc } from '../../support/faults/fork-at.ts'
import { here } from '../../support/servers/place.ts'

/** On the axis of `machineNowMs`. */
export interface Stall {
  readonly fromMs: number
  readonly toMs: number
}

export interface StallWatch {
  /** All stalls since the start, in the order of their ends. */
  stalls(): Promise<readonly Stall[]>
  stop(): Promise<void>
}

/** `pids` are the processes to watch. */
export async function startStallWatch(pids: readonly number[]): Promise<StallWatch> {
  const program = join(import.meta.dirname, 'stall-watch-worker.ts')
  const child = forkAt(here, program, pids, singleThreadedGc)
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

/** The stalled time between two moments; overlapping stalls count once. */
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
