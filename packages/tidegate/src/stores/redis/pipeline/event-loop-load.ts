/**
 * Measures if this process has other work than Redis commands. While it only waits for replies,
 * many small commands keep both busy. While it has other work all the time, each command takes time
 * from that work.
 */

import { steadyClock } from '../../../clock.ts'
import { type LoopTimes, loopTimes } from '../../../runtime.ts'

/** The share of other work from which the event loop counts as busy. */
const BUSY_SHARE_MIN = 0.6

/** Processor time of a command in this process, most of it for the write, on a slow machine. */
const COMMAND_MS = 0.015

/** Long enough to be significant, short enough to follow a wave of requests. */
const SAMPLE_INTERVAL_MS = 50

export class EventLoopLoad {
  #since = loopTimes()
  #sampledMs = steadyClock.now()
  #commands = 0
  #isBusy = false

  /** Must be called for every command. */
  countCommand(): void {
    this.#commands++
  }

  isBusy(): boolean {
    const nowMs = steadyClock.now()
    const passedMs = nowMs - this.#sampledMs
    if (passedMs < SAMPLE_INTERVAL_MS) return this.#isBusy
    const until = loopTimes()
    const ownShare = (this.#commands * COMMAND_MS) / passedMs
    this.#isBusy = utilization(this.#since, until) - ownShare >= BUSY_SHARE_MIN
    this.#since = until
    this.#sampledMs = nowMs
    this.#commands = 0
    return this.#isBusy
  }
}

/** The share of time that the event loop worked; 0 if the runtime does not measure it. */
function utilization(since: LoopTimes | undefined, until: LoopTimes | undefined): number {
  if (since === undefined || until === undefined) return 0
  const activeMs = until.active - since.active
  const passedMs = activeMs + until.idle - since.idle
  return passedMs > 0 ? activeMs / passedMs : 0
}
