/** Makes the calls of a burst in this process, either all at once or a fixed number in flight. */

import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { type BurstAnswer, type BurstReport, BurstTally } from './burst-report.ts'

/** Keys take turns: each is asked for `asksPerKey` times, then the next `keys` keys follow. */
export interface BurstOrder {
  /** The prefix of the keys. Another name means counters that nothing was charged to. */
  readonly name: string
  readonly keys: number
  readonly asksPerKey: number
  /** `at-once` makes `keys` × `asksPerKey` calls in one turn of the event loop. */
  readonly pace: 'at-once' | SteadyPace
}

export interface SteadyPace {
  /** Each answer is followed by the next call at once. */
  readonly inFlight: number
  readonly forMs: number
}

export interface BurstTimes {
  /** From the first call to the last answer. */
  readonly elapsedMs: number
  /** The longest turn of the event loop meanwhile. */
  readonly longestTurnMs: number
}

export type BurstResult = BurstReport & BurstTimes

export interface BurstCaller {
  /** Units of each key, which do not come back during a burst. */
  readonly limit: number
  call(key: string): Promise<BurstAnswer>
  /** Makes many calls in one command sequence. Default: one `call` for each key. */
  callAll?(keys: readonly string[]): Promise<readonly BurstAnswer[]>
}

const MONITOR_RESOLUTION_MS = 1

/** The monitor compares two ticks of its timer, so it needs some before the burst. */
const MONITOR_WARM_UP_MS = 10

/**
 * Calls of one loop before it lets the event loop turn. Decisions that need no store resolve at
 * once; without a turn, such answers would keep the process from reading its sockets.
 */
const CALLS_PER_TURN_MAX = 16

/** `prepare` runs inside the measured time: on first use, it makes the client and the limiter. */
export async function runBurst(
  prepare: () => BurstCaller,
  order: BurstOrder,
): Promise<BurstResult> {
  const run = order.pace === 'at-once' ? callsAtOnce(order) : callsInFlight(order, order.pace)
  const monitor = monitorEventLoopDelay({ resolution: MONITOR_RESOLUTION_MS })
  monitor.enable()
  await sleep(MONITOR_WARM_UP_MS)
  monitor.reset()
  const startMs = performance.now()
  const caller = prepare()
  const count = await run(caller)
  const elapsedMs = performance.now() - startMs
  await sleep(MONITOR_RESOLUTION_MS)
  monitor.disable()
  const longestTurnMs = Math.max(0, monitor.max / 1e6 - MONITOR_RESOLUTION_MS)
  return { ...count().report(), elapsedMs, longestTurnMs }
}

/** Makes the calls, and returns a function that counts them after the measured time. */
type Calls = (caller: BurstCaller) => Promise<() => BurstTally>

function callsAtOnce(order: BurstOrder): Calls {
  const calls = order.keys * order.asksPerKey
  const keys = Array.from({ length: calls }, (_, at) => keyText(order, keyAt(order, at)))
  return async (caller) => {
    const answers = caller.callAll
      ? (await caller.callAll(keys)).map((value) => ({ status: 'fulfilled' as const, value }))
      : await Promise.allSettled(keys.map((key) => caller.call(key)))
    return () => {
      const tally = new BurstTally(caller.limit)
      for (const [at, answer] of answers.entries()) {
        const key = keyAt(order, at)
        if (answer.status === 'fulfilled') tally.answered(key, answer.value)
        else tally.failed(key, answer.reason)
      }
      return tally
    }
  }
}

function callsInFlight(order: BurstOrder, { inFlight, forMs }: SteadyPace): Calls {
  return async (caller) => {
    const tally = new BurstTally(caller.limit)
    const endMs = performance.now() + forMs
    let next = 0
    const loop = async () => {
      for (let calls = 1; performance.now() < endMs; calls++) {
        if (calls % CALLS_PER_TURN_MAX === 0) await nextTurn()
        const key = keyAt(order, next++)
        try {
          tally.answered(key, await caller.call(keyText(order, key)))
        } catch (error) {
          tally.failed(key, error)
        }
      }
    }
    await Promise.all(Array.from({ length: inFlight }, loop))
    return () => tally
  }
}

function keyAt({ keys, asksPerKey }: BurstOrder, call: number): number {
  return Math.floor(call / (keys * asksPerKey)) * keys + (call % keys)
}

function keyText({ name }: BurstOrder, key: number): string {
  return `${name}:${key}`
}
