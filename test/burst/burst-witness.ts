/**
 * Watches whether Redis itself answers during a burst. A Redis that is silent for as long as a
 * deadline, because its host has stalled, is an outage by definition: then a burst says nothing
 * about load, and another one is made. On a Redis that answers, every burst counts.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { type Dialled, dial } from '../support/faults/dial.ts'
import type { BurstAddress } from './burst-clients.ts'

/** Below the shortest deadline, because the witness sees only the end of some silences. */
const SILENT_MS = 10

/** A defect shows in every burst; a machine that stalls in each of these is not usable. */
const BURSTS_MAX = 20

const PING = 'PING\r\n'
const PAUSE_MS = 2

/** Makes a burst; again only if it is not as expected and Redis was silent. */
export function burstOnHealthyRedis<T>(
  servers: readonly BurstAddress[],
  burst: (number: number) => Promise<T>,
  isAsExpected: (result: T) => boolean,
): Promise<T> {
  const watched = async (number: number) => {
    const witness = new Witness(servers)
    const report = await burst(number)
    return { report, silentMs: await witness.stop() }
  }
  return firstOnHealthyRedis(watched, isAsExpected)
}

/** Like `burstOnHealthyRedis`, for bursts that start their own Redis and watch it. */
export async function firstOnHealthyRedis<T>(
  watched: (number: number) => Promise<{ readonly report: T; readonly silentMs: number }>,
  isAsExpected: (result: T) => boolean,
): Promise<T> {
  for (let number = 1; ; number += 1) {
    const { report, silentMs } = await watched(number)
    if (isAsExpected(report) || silentMs < SILENT_MS || number === BURSTS_MAX) return report
    console.log(`burst ${number}: Redis was silent for ${silentMs.toFixed(0)} ms`)
  }
}

/** Pings servers, each on a connection of its own, and measures the longest wait for an answer. */
export class Witness {
  readonly #watching: Promise<number[]>
  #isOver = false

  constructor(servers: readonly BurstAddress[]) {
    this.#watching = Promise.all(servers.map((server) => this.#watch(dial(server))))
  }

  /** The longest silence in ms. */
  async stop(): Promise<number> {
    this.#isOver = true
    return Math.max(...(await this.#watching))
  }

  async #watch(connection: Dialled): Promise<number> {
    let longestMs = 0
    while (!this.#isOver) {
      const { length } = connection.received
      const sentMs = performance.now()
      connection.send(PING)
      while (connection.received.length === length && connection.state === 'open') {
        await sleep(1)
        if (this.#isOver) break
      }
      longestMs = Math.max(longestMs, performance.now() - sentMs)
      await sleep(PAUSE_MS)
    }
    connection.close()
    return longestMs
  }
}
