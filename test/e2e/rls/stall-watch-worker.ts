/** The process of `startStallWatch`. */

import { closeSync, openSync, readdirSync, readSync } from 'node:fs'
import { machineNowMs } from '../../support/faults/machine-clock.ts'
import type { Stall } from './stall-watch.ts'

/** The shortest interval of a timer. */
const TICK_MS = 1

/** A timer of 1 ms normally fires after up to 2 ms. */
const LATE_MS_MIN = 2

/** Shorter waits are normal scheduling. */
const WAITED_MS_MIN = 0.2

const pids: readonly number[] = JSON.parse(process.argv[2] ?? '[]')

const stalls: Stall[] = []

/**
 * The total time that a thread was ready to run and waited: the second number of schedstat. It
 * grows when the thread gets to run.
 */
class Waiting {
  readonly #file: number
  readonly #buffer = Buffer.alloc(128)
  #lastMs: number

  constructor(path: string) {
    this.#file = openSync(path, 'r')
    this.#lastMs = this.#readMs()
  }

  note(nowMs: number): void {
    const waitedMs = this.#readMs()
    const sinceMs = waitedMs - this.#lastMs
    this.#lastMs = waitedMs
    if (sinceMs >= WAITED_MS_MIN) stalls.push({ fromMs: nowMs - sinceMs, toMs: nowMs })
  }

  close(): void {
    closeSync(this.#file)
  }

  #readMs(): number {
    try {
      const length = readSync(this.#file, this.#buffer, 0, this.#buffer.length, 0)
      return Number(this.#buffer.toString('latin1', 0, length).split(' ')[1] ?? 0) / 1e6
    } catch {
      // The process has ended.
      return this.#lastMs
    }
  }
}

/** All threads, because one may wait for another. Empty if the system has no schedstat. */
function threadsOf(pid: number): Waiting[] {
  try {
    const folder = `/proc/${pid}/task`
    return readdirSync(folder).map((thread) => new Waiting(`${folder}/${thread}/schedstat`))
  } catch {
    return []
  }
}

const waiting = pids.flatMap(threadsOf)

let lastMs = machineNowMs()

setInterval(() => {
  const nowMs = machineNowMs()
  const dueMs = lastMs + TICK_MS
  lastMs = nowMs
  if (nowMs - dueMs >= LATE_MS_MIN) stalls.push({ fromMs: dueMs, toMs: nowMs })
  for (const one of waiting) one.note(nowMs)
}, TICK_MS)

process.on('message', () => process.send?.(stalls))
process.once('disconnect', () => {
  for (const one of waiting) one.close()
  process.exit()
})
process.send?.('ready')
