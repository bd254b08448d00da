/**
 * The outcome of every check of one process, in columns of numbers. A row takes 20 bytes, so that
 * the records do not distort measurements of memory.
 */

/** `pending` checks have no answer. */
export const outcomes = ['pending', 'allowed', 'denied', 'rejected'] as const

export type Outcome = (typeof outcomes)[number]

export interface LoadRecords {
  /** On the axis of `machineNowMs`. */
  readonly startedMs: Float64Array
  readonly tookMs: Float32Array
  /** The number of the key. */
  readonly key: Uint32Array
  /** An index of `outcomes`. */
  readonly outcome: Uint8Array
  /** 1 if the answer was late. */
  readonly late: Uint8Array
  /** An index of `notes`. */
  readonly note: Uint16Array
  readonly notes: readonly string[]
}

/** One row of the records. */
export interface Check {
  readonly startedMs: number
  /** NaN if it is pending. */
  readonly tookMs: number
  readonly key: number
  readonly outcome: Outcome
  /** True if there was no answer by the deadline. */
  readonly isLate: boolean
  /** `reason/mode` of a degraded decision, the message of a rejection, else empty. */
  readonly note: string
}

/** Half an hour at 500 per second. Pages of memory are only committed when written. */
const ROWS_MAX = 2 ** 20

/** A bound for messages with varying numbers; further ones share one entry. */
const NOTES_MAX = 1000
const OTHER_NOTE = 'other'

export class LoadRecorder {
  readonly #startedMs = new Float64Array(ROWS_MAX)
  readonly #tookMs = new Float32Array(ROWS_MAX)
  readonly #key = new Uint32Array(ROWS_MAX)
  readonly #outcome = new Uint8Array(ROWS_MAX)
  readonly #late = new Uint8Array(ROWS_MAX)
  readonly #note = new Uint16Array(ROWS_MAX)
  readonly #notes = new Map([['', 0]])
  #count = 0

  /** Returns the number of the row, for `settle`. */
  begin(startedMs: number, key: number): number {
    const row = this.#count
    if (row === ROWS_MAX) throw new Error(`a process of a load records ${ROWS_MAX} checks at most`)
    this.#startedMs[row] = startedMs
    this.#tookMs[row] = Number.NaN
    this.#key[row] = key
    this.#count += 1
    return row
  }

  settle(row: number, nowMs: number, outcome: Outcome, note: string): void {
    this.#tookMs[row] = nowMs - (this.#startedMs[row] ?? 0)
    this.#outcome[row] = outcomes.indexOf(outcome)
    this.#note[row] = this.#placeOf(note)
  }

  /** Marks the check as late if it has no answer yet. */
  expect(row: number): void {
    if (this.#outcome[row] === outcomes.indexOf('pending')) this.#late[row] = 1
  }

  records(): LoadRecords {
    const count = this.#count
    return {
      startedMs: this.#startedMs.slice(0, count),
      tookMs: this.#tookMs.slice(0, count),
      key: this.#key.slice(0, count),
      outcome: this.#outcome.slice(0, count),
      late: this.#late.slice(0, count),
      note: this.#note.slice(0, count),
      notes: [...this.#notes.keys()],
    }
  }

  #placeOf(note: string): number {
    const known = this.#notes.get(note)
    if (known !== undefined) return known
    if (note !== OTHER_NOTE && this.#notes.size >= NOTES_MAX) return this.#placeOf(OTHER_NOTE)
    this.#notes.set(note, this.#notes.size)
    return this.#notes.size - 1
  }
}

/** The rows of the records, in the order of their start. */
export function* checksOf(records: LoadRecords): Generator<Check> {
  for (const [row, startedMs] of records.startedMs.entries()) {
    yield {
      startedMs,
      tookMs: records.tookMs[row] ?? Number.NaN,
      key: records.key[row] ?? 0,
      outcome: outcomes[records.outcome[row] ?? 0] ?? 'pending',
      isLate: records.late[row] === 1,
      note: records.notes[records.note[row] ?? 0] ?? '',
    }
  }
}
