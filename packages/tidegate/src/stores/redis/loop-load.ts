/**
 * Whether this process has other work than to ask Redis. While it only waits for replies, many
 * small commands keep both at work; while it has other work all the time, each command costs that
 * work its share.
 */

import { performance } from 'node:perf_hooks'
import { steadyClock } from '../../clock.ts'

/** The share of time that the event loop had something else to do. */
const BUSY_SHARE_MIN = 0.6

/** What a command takes of this process, most of it to write it, on a machine of no great speed. */
const COMMAND_MS = 0.015

/** Long enough to mean something, short enough to follow a wave of requests. */
const LOOK_INTERVAL_MS = 50

export class LoopLoad {
  #since = performance.eventLoopUtilization()
  #lookedMs = steadyClock.now()
  #commands = 0
  #isBusy = false

  /** To be told of every command. */
  hasSent(): void {
    this.#commands++
  }

  isBusy(): boolean {
    const nowMs = steadyClock.now()
    const passedMs = nowMs - this.#lookedMs
    if (passedMs < LOOK_INTERVAL_MS) return this.#isBusy
    const until = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(until, this.#since)
    const ownShare = (this.#commands * COMMAND_MS) / passedMs
    this.#isBusy = utilization - ownShare >= BUSY_SHARE_MIN
    this.#since = until
    this.#lookedMs = nowMs
    this.#commands = 0
    return this.#isBusy
  }
}
