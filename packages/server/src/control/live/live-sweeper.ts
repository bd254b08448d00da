/**
 * Removes overrides and blocks that have ended, so that they take no room. Each removal has the
 * condition that the entry has not changed, so that an entry that was set again stays, and two
 * nodes that sweep at the same time remove nothing twice. A sweep is one record of the audit.
 *
 * Entries end by the clock of each node, whether they are swept or not.
 */

import { systemActor } from '../audit/audit-record.ts'
import type { AuditedChanges } from '../audit/audited-change.ts'
import { BLOCKS_MAX, BLOCKS_PREFIX, OVERRIDES_MAX } from './entries.ts'
import type { LiveEntryReader, ReadEntry } from './read-live-entries.ts'

/** Random, so that mostly one node of a fleet sweeps and the others find nothing. */
const INTERVAL_MS = { min: 30_000, max: 90_000 } as const

/** Clocks of nodes may differ by less. */
const GRACE_MS = 60_000

/** A transaction has at most 100 writes, and the audit needs three. */
const BATCH_MAX = 90

/** The work of one sweep: 900 entries. The next sweep continues. */
const BATCHES_MAX = 10

class NothingToSweep extends Error {}

export class LiveSweeper {
  readonly #reader: LiveEntryReader
  readonly #changes: AuditedChanges
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(reader: LiveEntryReader, changes: AuditedChanges) {
    this.#reader = reader
    this.#changes = changes
  }

  /** Sweeps from time to time until `close`. */
  start(): void {
    if (this.#isClosed) return
    const delayMs = INTERVAL_MS.min + Math.random() * (INTERVAL_MS.max - INTERVAL_MS.min)
    this.#timer = setTimeout(() => {
      // The store may not answer; entries have ended in any case.
      this.sweep(Date.now() - GRACE_MS)
        .catch(() => undefined)
        .finally(() => this.start())
    }, delayMs).unref()
  }

  /**
   * Resolves with true if there is room for an entry at this key. Makes room if expired entries
   * take it, also those within the grace time.
   */
  async hasRoom(key: string): Promise<boolean> {
    if (this.#reader.has(key) || this.#hasRoom(key)) return true
    await this.sweep(Date.now())
    return this.#hasRoom(key)
  }

  /** Removes entries that have expired by this time. Resolves with their number. */
  async sweep(atMs: number): Promise<number> {
    let count = 0
    const swept = new Set<string>()
    for (let batch = 0; batch < BATCHES_MAX && !this.#isClosed; batch++) {
      const removed = await this.#sweepOne(atMs, swept)
      if (removed.length === 0) break
      for (const { key, revision } of removed) swept.add(`${key} ${revision}`)
      count += removed.length
    }
    return count
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  #hasRoom(key: string): boolean {
    const { overrides, blocks } = this.#reader.counts
    return key.startsWith(BLOCKS_PREFIX) ? blocks < BLOCKS_MAX : overrides < OVERRIDES_MAX
  }

  /** `swept` entries were removed, and the reader may not know it yet. */
  async #sweepOne(atMs: number, swept: ReadonlySet<string>): Promise<readonly ReadEntry[]> {
    let removed: readonly ReadEntry[] = []
    try {
      await this.#changes.change(async () => {
        removed = this.#reader
          .expired(atMs, swept.size + BATCH_MAX)
          .filter(({ key, revision }) => !swept.has(`${key} ${revision}`))
          .slice(0, BATCH_MAX)
        if (removed.length === 0) throw new NothingToSweep()
        return {
          conditions: removed,
          writes: removed.map(({ key }) => ({ key, value: undefined })),
          entry: {
            actor: systemActor,
            action: 'live.sweep',
            target: { type: 'entries' },
            after: { removed: removed.length },
            reason: 'they have ended',
            result: 'done',
          },
        }
      })
    } catch (error) {
      if (error instanceof NothingToSweep) return []
      throw error
    }
    return removed
  }
}
