/**
 * Makes a change together with its audit record. Changes of one process wait for one another,
 * because all of them move the same head; those of other processes are met by retries.
 */

import type { AuditWriter } from '../audit-writer.ts'
import type { Condition, KeyValueStore, Write } from '../key-value.ts'
import { pauseAfterLostRace } from '../lost-race.ts'
import { auditPart } from './audit-chain.ts'
import type { AuditEntry, AuditRecord } from './audit-record.ts'

/** What a change needs to be true, what it writes, and its record. */
export interface PlannedChange {
  readonly conditions: readonly Condition[]
  readonly writes: readonly Write[]
  readonly entry: AuditEntry
}

export interface MadeChange {
  readonly record: AuditRecord
  readonly revision: bigint
}

/** With 8 writing processes, one attempt in 8 succeeds; 64 fail in a row once in 5,000 changes. */
const ATTEMPTS_MAX = 64

/** Waiting changes of one process. More come from a client that does not wait for responses. */
const WAITING_MAX = 1_000

/** Too many other changes at the same time; nothing was changed. */
export class ChangeConflict extends Error {}

export class AuditedChanges {
  readonly #store: KeyValueStore
  readonly #onRecord: (record: AuditRecord) => void
  #last: Promise<unknown> = Promise.resolve()
  #waiting = 0

  /** `onRecord` receives every record that was written. */
  constructor(store: KeyValueStore, onRecord: (record: AuditRecord) => void = () => undefined) {
    this.#store = store
    this.#onRecord = onRecord
  }

  /**
   * Calls `plan` and writes the result with its record, again until no other change comes between.
   * `plan` reads what it depends on, and throws if the change is not possible any more. Rejects
   * with ChangeConflict after too many attempts.
   */
  async change(plan: () => Promise<PlannedChange>): Promise<MadeChange> {
    const change = await this.#inTurn(() => this.#attempts(plan))
    this.#onRecord(change.record)
    return change
  }

  /**
   * Runs a change that writes its transaction itself, with the writer of its record. `run` resolves
   * after the transaction that has the last part of the writer.
   */
  async run<T>(entry: AuditEntry, run: (audit: AuditWriter) => Promise<T>): Promise<T> {
    let record: AuditRecord | undefined
    const audit: AuditWriter = async (store, step) => {
      const part = await auditPart(store, { ...entry, ...step })
      record = part.record
      return part
    }
    const result = await this.#inTurn(() => run(audit))
    if (record !== undefined) this.#onRecord(record)
    return result
  }

  /** Writes a record without a change, such as for an attempt that was refused. */
  async note(entry: AuditEntry): Promise<AuditRecord> {
    const { record } = await this.change(async () => ({ conditions: [], writes: [], entry }))
    return record
  }

  async #inTurn<T>(run: () => Promise<T>): Promise<T> {
    if (this.#waiting >= WAITING_MAX) {
      throw new ChangeConflict(`more than ${WAITING_MAX} changes wait; try again later`)
    }
    this.#waiting += 1
    const made = this.#last.then(run)
    this.#last = made.catch(() => undefined)
    try {
      return await made
    } finally {
      this.#waiting -= 1
    }
  }

  async #attempts(plan: () => Promise<PlannedChange>): Promise<MadeChange> {
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
      const { conditions, writes, entry } = await plan()
      // The head is read last: the shorter the time until it is replaced, the fewer lost races.
      const part = await auditPart(this.#store, entry)
      const result = await this.#store.transact(
        [...conditions, ...part.conditions],
        [...writes, ...part.writes],
      )
      if (result.ok) return { record: part.record, revision: result.revision }
      await pauseAfterLostRace(attempt)
    }
    throw new ChangeConflict(`other changes came first in ${ATTEMPTS_MAX} attempts; try again`)
  }
}
