/**
 * What became of every check of one process, in columns of numbers: a row takes 20 bytes, so that
 * the recording is not what a measurement of memory sees.
 */

/** Pending is what has not been answered at all. */
export const outcomes = ['pending', 'allowed', 'denied', 'rejected'] as const

export type Outcome = (typeof outcomes)[number]

export interface LoadRecords {
  /** On the axis of `machineNowMs`. */
  readonly startedMs: Float64Array
  readonly tookMs: Float32Array
  /** The number of the key. */
  readonly key: Uint32Array
  /** A place in `outcomes`. */
  readonly outcome: Uint8Array
  /** 1 where the answer came late. */
  readonly late: Uint8Array
  /** A place in `notes`. */
  readonly note: Uint16Array
  readonly notes: readonly string[]
}

/** One row of the records. */
export interface Check {
  readonly startedMs: number
  /** NaN where it is pending. */
  readonly tookMs: number
  readonly key: number
  readonly outcome: Outcome
  /** Whether there was no answer yet when it was to be there. */
  readonly isLate: boolean
  /** Of a decision `reason/mode` if it is degraded, of a rejection its message, else nothing. */
  readonly note: string
}

/** Half an hour at 500 per second. The memory is only taken as it is written. */
const ROWS_MAX = 2 ** 20

/** Messages may have numbers in them that differ each time; from here on they share one place. */
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

  /** The number of the row, by which to settle it. */
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

  /** Now its answer is to be there. */
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

/** The rows of the records, in the order in which they began. */
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
