/**
 * Records of attempts that were refused, of which a client can cause any number. At most some a
 * minute are written; the next one carries the number of those that were left out.
 */

import type { AuditEntry } from './audit-record.ts'
import type { AuditedChanges } from './audited-change.ts'

/** Enough to see an attack; a year of it takes as many records as are kept. */
const RECORDS_PER_MINUTE = 10

const MINUTE_MS = 60_000

export class CappedRecords {
  readonly #changes: AuditedChanges
  readonly #onError: (error: unknown) => void
  #minute = 0
  #written = 0
  #leftOut = 0

  constructor(changes: AuditedChanges, onError: (error: unknown) => void) {
    this.#changes = changes
    this.#onError = onError
  }

  /** Does not wait: the client is refused in any case. */
  note(entry: AuditEntry, nowMs = Date.now()): void {
    const minute = Math.floor(nowMs / MINUTE_MS)
    if (minute !== this.#minute) {
      this.#minute = minute
      this.#written = 0
    }
    if (this.#written >= RECORDS_PER_MINUTE) {
      this.#leftOut += 1
      return
    }
    this.#written += 1
    const leftOut = this.#leftOut
    this.#leftOut = 0
    const counted = leftOut === 0 ? entry : { ...entry, leftOut }
    this.#changes.note(counted).catch(this.#onError)
  }
}
