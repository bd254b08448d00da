/**
 * How many commands the charges of one moment are divided into.
 *
 * With few, the charges share the fixed cost of a command, which is best while both processors are
 * awake. Where idle ones fall asleep between two messages, as on many virtual machines, many small
 * commands keep them awake and are faster. No figure of the process tells these machines apart, so
 * both are tried in turns from time to time, and the one with the shorter waiting time is used. The
 * page docs/decisions/charge-queue.md has the measurements.
 */

import { steadyClock } from '../../../clock.ts'
import type { Waiting } from './waiting.ts'

/** With one, server and process would wait for each other. */
export const FEW = 2

/** With more, writes take the process longer than the server takes for the charges. */
export const MANY = 4

/**
 * The charges of a turn in a trial, and those before them that are not judged. Processors need some
 * 50 ms until they sleep deeper or less deep than in the turn before.
 */
const TURN = 2_048
const TURN_START = 512

/** Turns of each number. A stall of the machine in one of them does not change their median. */
const TURNS = 5

/** Charges until the first trial, while the first code is being compiled. */
const BEFORE_FIRST = 16_000

/**
 * Charges between two trials: twice as many after each, because the first ones measure a process
 * that is still being compiled. At last, a trial takes 5 % of the charges.
 */
const BETWEEN_MIN = 64_000
const BETWEEN_MAX = 512_000

/** Many commands take more processor time, and must be faster by more than the noise. */
const GAIN_MIN = 0.1

/** To stay with many, half of it is enough. */
const GAIN_KEPT = GAIN_MIN / 2

export class SideBySide {
  /** The present number of commands: at first the one that is never much slower. */
  commands = MANY
  #isMany = true
  /** Charges until the next step. */
  #left = BEFORE_FIRST
  #between = BETWEEN_MIN
  /** Mean waiting times of the turns of a trial; few and many alternate. Undefined between two. */
  #turns: number[] | undefined
  #sumMs = 0

  /** True while waiting times are wanted. */
  get isTrial(): boolean {
    return this.#turns !== undefined
  }

  /** Takes in a command that was answered just now. */
  learnFrom(charges: readonly Waiting[]): void {
    const count = charges.length
    const startMs = this.isTrial ? charges[count >> 1]?.startMs : 0
    if (startMs !== undefined) this.learn(count, startMs && steadyClock.now() - startMs)
  }

  /** Takes in a command of some charges, of which one had to wait for so long in all. */
  learn(charges: number, waitedMs: number): void {
    this.#left -= charges
    const turns = this.#turns
    if (turns === undefined) {
      if (this.#left <= 0) this.#begin([])
      return
    }
    if (this.#left > TURN) return
    this.#sumMs += charges * waitedMs
    if (this.#left > 0) return
    turns.push(this.#sumMs / (TURN - this.#left))
    if (turns.length < 2 * TURNS) this.#begin(turns)
    else this.#decide(turns)
  }

  #begin(turns: number[]): void {
    this.#turns = turns
    this.commands = turns.length % 2 === 0 ? FEW : MANY
    this.#left = TURN + TURN_START
    this.#sumMs = 0
  }

  #decide(turns: readonly number[]): void {
    const fewMs = median(turns.filter((_, at) => at % 2 === 0))
    const manyMs = median(turns.filter((_, at) => at % 2 === 1))
    const gainMin = this.#isMany ? GAIN_KEPT : GAIN_MIN
    this.#isMany = manyMs < fewMs * (1 - gainMin)
    this.commands = this.#isMany ? MANY : FEW
    this.#turns = undefined
    this.#left = this.#between
    this.#between = Math.min(this.#between * 2, BETWEEN_MAX)
  }
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] as number
}
