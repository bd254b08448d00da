/**
 * The key-value store of one node: entries in memory, and in a file if there is one. A transaction
 * resolves when the file has it. Transactions that arrive while the file is written are saved
 * together. Leased entries belong to this process and are not saved.
 *
 * One process owns the file. It is not shared between processes.
 */

import { rename } from 'node:fs/promises'
import { readDurably, writeDurably } from '../config/durable-file.ts'
import { checkTransaction } from './bounds.ts'
import { ControlError } from './control-error.ts'
import { changedEntries, type EntryChange, entriesBelow, entryOf, pageOf } from './entry-list.ts'
import type {
  Condition,
  Entry,
  KeyValueListener,
  KeyValueStore,
  RangeOptions,
  Snapshot,
  TransactionResult,
  Write,
} from './key-value.ts'

/** All overrides and blocks that are allowed, and as many audit records. */
const ENTRIES_MAX = 120_000

/** The file is written as a whole: at this size it takes about a second. */
const BYTES_MAX = 64 * 1024 ** 2

/** Entries with their revisions, and the escapes of JSON. */
const FILE_BYTES_MAX = 2 * BYTES_MAX

interface Follower {
  readonly prefix: string
  readonly listener: KeyValueListener
}

interface SavedEntries {
  readonly revision: string
  /** Key, value and revision. */
  readonly entries: readonly (readonly [string, string, string])[]
}

/** Opens the file, or begins without entries if there is none. Without a file nothing is saved. */
export async function openLocalKeyValue(file?: string): Promise<LocalKeyValue> {
  if (file === undefined) return new LocalKeyValue(undefined, empty, undefined)
  const read = await readDurably(file, FILE_BYTES_MAX)
  if (read.ok) {
    const saved = savedEntries(read.text)
    if (saved !== undefined) return new LocalKeyValue(file, saved, undefined)
  } else if (read.isMissing) return new LocalKeyValue(file, empty, undefined)
  const aside = `${file}.damaged`
  await rename(file, aside).catch(() => undefined)
  const reason = read.ok ? 'is not a list of entries' : read.reason
  const problem = `${file} ${reason}; it was moved to ${aside}, and this node begins without it`
  return new LocalKeyValue(file, empty, problem)
}

export class LocalKeyValue implements KeyValueStore {
  readonly scope = 'node'
  readonly description = 'this node only'
  /** The reason why the entries of the file could not be used, if there is one. */
  readonly problem: string | undefined
  readonly #file: string | undefined
  readonly #followers = new Set<Follower>()
  readonly #leased = new Set<string>()
  #entries: readonly Entry[]
  #revision: bigint
  #bytes: number
  #saving: Promise<void> | undefined
  /** The saving that begins when the one under way has ended. */
  #nextSaving: Promise<void> | undefined
  #isClosed = false

  constructor(file: string | undefined, saved: Snapshot, problem: string | undefined) {
    this.#file = file
    this.#entries = saved.entries
    this.#revision = saved.revision
    this.#bytes = saved.entries.reduce((sum, entry) => sum + bytesOf(entry), 0)
    this.problem = problem
  }

  async range(prefix: string, options: RangeOptions = {}): Promise<Snapshot> {
    this.#checkOpen()
    const entries = pageOf(entriesBelow(this.#entries, prefix), options)
    return { entries, revision: this.#revision }
  }

  async transact(
    conditions: readonly Condition[],
    writes: readonly Write[],
  ): Promise<TransactionResult> {
    this.#checkOpen()
    checkTransaction(conditions, writes)
    const isMet = conditions.every(
      ({ key, revision }) => (entryOf(this.#entries, key)?.revision ?? 0n) === revision,
    )
    if (!isMet) {
      const keys = new Set(conditions.map(({ key }) => key))
      const current = [...keys].flatMap((key) => entryOf(this.#entries, key) ?? [])
      return { ok: false, revision: this.#revision, current }
    }
    const revision = this.#apply(writes)
    await this.#save()
    return { ok: true, revision }
  }

  follow(prefix: string, listener: KeyValueListener): () => void {
    this.#checkOpen()
    const follower = { prefix, listener }
    this.#followers.add(follower)
    // Later, as with a store that has to be asked first.
    queueMicrotask(() => {
      if (!this.#followers.has(follower)) return
      listener.onContact(true)
      this.#report(follower)
    })
    return () => void this.#followers.delete(follower)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#followers.clear()
    await (this.#nextSaving ?? this.#saving)?.catch(() => undefined)
  }

  /** Returns the revision after the writes. */
  #apply(writes: readonly Write[]): bigint {
    const revision = this.#revision + 1n
    const changes = writes.flatMap(({ key, value }): EntryChange[] => {
      if (value !== undefined) return [{ key, entry: { key, value, revision } }]
      return entryOf(this.#entries, key) === undefined ? [] : [{ key, entry: undefined }]
    })
    if (changes.length === 0) return this.#revision
    const entries = changedEntries(this.#entries, changes)
    const bytes = this.#bytes + this.#growth(changes)
    if (entries.length > ENTRIES_MAX || bytes > BYTES_MAX) {
      const allowed = `${ENTRIES_MAX} entries and ${BYTES_MAX} bytes`
      throw new ControlError('full', `the store of this node is full; allowed: ${allowed}`)
    }
    for (const { key, isLeased } of writes) {
      if (isLeased) this.#leased.add(key)
      else this.#leased.delete(key)
    }
    this.#entries = entries
    this.#bytes = bytes
    this.#revision = revision
    for (const follower of [...this.#followers]) {
      if (changes.some(({ key }) => key.startsWith(follower.prefix))) this.#report(follower)
    }
    return revision
  }

  #growth(changes: readonly EntryChange[]): number {
    const size = (entry: Entry | undefined) => (entry === undefined ? 0 : bytesOf(entry))
    return changes.reduce(
      (sum, { key, entry }) => sum + size(entry) - size(entryOf(this.#entries, key)),
      0,
    )
  }

  #report({ prefix, listener }: Follower): void {
    const entries = entriesBelow(this.#entries, prefix)
    listener.onChange({ entries, revision: this.#revision })
  }

  /** Resolves when a saving that began after this call has ended. */
  #save(): Promise<void> {
    if (this.#file === undefined) return Promise.resolve()
    if (this.#saving === undefined) return this.#startSaving(this.#file)
    this.#nextSaving ??= this.#saving.catch(() => undefined).then(() => this.#save())
    return this.#nextSaving
  }

  #startSaving(file: string): Promise<void> {
    this.#nextSaving = undefined
    const saving = this.#write(file).finally(() => {
      if (this.#saving === saving) this.#saving = undefined
    })
    this.#saving = saving
    return saving
  }

  async #write(file: string): Promise<void> {
    const kept = this.#entries.filter(({ key }) => !this.#leased.has(key))
    const entries = kept.map(({ key, value, revision }) => [key, value, String(revision)] as const)
    const saved: SavedEntries = { revision: String(this.#revision), entries }
    try {
      await writeDurably(file, JSON.stringify(saved))
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw new ControlError('unreachable', `${file} cannot be written: ${reason}`, { cause })
    }
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new ControlError('closed', 'the store of this node is closed')
  }
}

const empty: Snapshot = { entries: [], revision: 0n }

function bytesOf({ key, value }: Entry): number {
  return key.length + Buffer.byteLength(value)
}

/** The checksum has shown that this program wrote the text, so only its shape is checked. */
function savedEntries(text: string): Snapshot | undefined {
  try {
    const { revision, entries } = JSON.parse(text) as SavedEntries
    const read = entries.map(([key, value, at]) => ({ key, value, revision: BigInt(at) }))
    return { entries: read, revision: BigInt(revision) }
  } catch {
    return undefined
  }
}
