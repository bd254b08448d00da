/**
 * Asks for a known limit more often than it admits, with a new key each time, and counts the
 * decisions that were wrong. It calls the doors as a client does, and so sees errors that a service
 * cannot see itself. All calls of a round are sent at once, because races admit too many.
 */

import { randomUUID } from 'node:crypto'
import { counterFamily, gauge, type MetricFamily } from 'tidegate/metrics'
import type { ProbeDoor } from './probe-doors.ts'

/** The limit that the policy has for the prober. */
export const PROBE_LIMIT = 10

/** Calls of a round: enough to be refused often, and few beside the calls of clients. */
export const PROBE_CALLS = 30

/**
 * `over` admits too many, `short` too few, and `unanswered` is not a decision of this limit.
 */
export const probeResults = ['right', 'over', 'short', 'unanswered'] as const

export interface ProbeRound {
  readonly door: ProbeDoor['name']
  readonly admitted: number
  readonly counts: Readonly<Record<(typeof probeResults)[number], number>>
}

export class Prober {
  readonly #doors: readonly ProbeDoor[]
  readonly #now: () => number
  readonly #decisions = counterFamily({
    name: 'tidegate_probe_decisions_total',
    help: 'Decisions of the prober, by whether they were right: 10 of 30 are admitted.',
    labels: ['door', 'result'],
  })
  readonly #lastMs = new Map<string, number>()

  constructor(doors: readonly ProbeDoor[], now: () => number = Date.now) {
    this.#doors = doors
    this.#now = now
    // Alerts need a series from the beginning, because an increase is a difference.
    for (const { name } of doors)
      for (const result of probeResults) this.#decisions.of(name, result)
  }

  /** Asks every door. Doors share counters, and have keys of their own. */
  round(): Promise<readonly ProbeRound[]> {
    return Promise.all(this.#doors.map((door) => this.#roundOf(door)))
  }

  read(): readonly MetricFamily[] {
    const samples = Array.from(this.#lastMs, ([door, atMs]) => {
      return { labels: { door }, value: atMs / 1_000 }
    })
    const help = 'When the last round of the prober ended, in seconds since 1970.'
    const last = gauge('tidegate_probe_last_round_timestamp_seconds', help, samples)
    return [this.#decisions.read(), last]
  }

  async #roundOf(door: ProbeDoor): Promise<ProbeRound> {
    const key = randomUUID()
    const answers = await Promise.all(Array.from({ length: PROBE_CALLS }, () => door.ask(key)))
    const count = (answer: string) => answers.filter((one) => one === answer).length
    const [admitted, denied, unanswered] = [count('admitted'), count('denied'), count('unanswered')]
    const over = Math.max(0, admitted - PROBE_LIMIT)
    const short = Math.max(0, denied - (PROBE_CALLS - PROBE_LIMIT))
    const right = PROBE_CALLS - over - short - unanswered
    const counts = { right, over, short, unanswered }
    for (const result of probeResults) {
      this.#decisions.of(door.name, result).value += counts[result]
    }
    this.#lastMs.set(door.name, this.#now())
    return { door: door.name, admitted, counts }
  }
}
