/**
 * Whether this process has time to spare. While it waits for Redis anyway, many small commands keep
 * both at work; while it has other work all the time, each command costs that work its share.
 */

import { performance } from 'node:perf_hooks'
import { steadyClock } from '../../clock.ts'

/** The share of time that the event loop did not wait for anything. */
const BUSY_UTILIZATION_MIN = 0.8

/** Long enough to mean something, short enough to follow a wave of requests. */
const LOOK_INTERVAL_MS = 50

export class LoopLoad {
  #since = performance.eventLoopUtilization()
  #lookedMs = steadyClock.now()
  #isBusy = false

  isBusy(): boolean {
    const nowMs = steadyClock.now()
    if (nowMs - this.#lookedMs < LOOK_INTERVAL_MS) return this.#isBusy
    const until = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(until, this.#since)
    this.#isBusy = utilization >= BUSY_UTILIZATION_MIN
    this.#since = until
    this.#lookedMs = nowMs
    return this.#isBusy
  }
}
