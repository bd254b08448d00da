/**
 * A key-value store that remembers the overrides, the blocks and the switch on the disk of the
 * node, so that they are live after a start without etcd. Their end is a part of each entry.
 * Followers get the remembered entries until the store has answered. They are remembered while
 * `live/` is followed. Everything else goes to the store; tokens are not remembered.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { readDurably, writeDurably } from '../../config/durable-file.ts'
import { entriesBelow } from '../entry-list.ts'
import type {
  Condition,
  Entry,
  KeyValueListener,
  KeyValueStore,
  RangeOptions,
  Snapshot,
  TransactionResult,
  Write,
} from '../key-value.ts'
import { BLOCKS_PREFIX, LIVE_PREFIX, OVERRIDES_PREFIX, SWITCH_KEY } from '../live/entries.ts'

/** All entries that are allowed, of half their largest size. */
const FILE_BYTES_MAX = 128 * 1024 ** 2

/** Several changes in a row are one write. */
const WRITE_AFTER_MS = 1_000

/** Entries that are converted without a pause: less than a millisecond. */
const ENTRIES_AT_ONCE = 500

export class RememberingStore implements KeyValueStore {
  readonly scope: KeyValueStore['scope']
  readonly description: string
  readonly #store: KeyValueStore
  readonly #path: string
  readonly #onProblem: (problem: string) => void
  readonly #remembered: Promise<Snapshot | undefined>
  #unsaved: Snapshot | undefined
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> = Promise.resolve()

  constructor(store: KeyValueStore, path: string, onProblem: (problem: string) => void) {
    this.scope = store.scope
    this.description = store.description
    this.#store = store
    this.#path = path
    this.#onProblem = onProblem
    this.#remembered = this.#read()
  }

  range(prefix: string, options?: RangeOptions): Promise<Snapshot> {
    return this.#store.range(prefix, options)
  }

  transact(conditions: readonly Condition[], writes: readonly Write[]): Promise<TransactionResult> {
    return this.#store.transact(conditions, writes)
  }

  follow(prefix: string, listener: KeyValueListener): () => void {
    let isOpen = true
    let isKnown = false
    const stop = this.#store.follow(prefix, {
      onChange: (snapshot) => {
        isKnown = true
        if (prefix === LIVE_PREFIX) this.#rememberLater(snapshot)
        listener.onChange(snapshot)
      },
      onContact: (isReachable, problem) => listener.onContact(isReachable, problem),
    })
    if (LIVE_PREFIX.startsWith(prefix) || prefix.startsWith(LIVE_PREFIX)) {
      void this.#remembered.then((remembered) => {
        if (!isOpen || isKnown || remembered === undefined) return
        const { entries, revision } = remembered
        listener.onChange({ entries: entriesBelow(entries, prefix), revision })
      })
    }
    return () => {
      isOpen = false
      stop()
    }
  }

  async close(): Promise<void> {
    await this.#save()
    await this.#store.close()
  }

  #rememberLater(snapshot: Snapshot): void {
    this.#unsaved = snapshot
    this.#timer ??= setTimeout(() => void this.#save(), WRITE_AFTER_MS)
    this.#timer.unref()
  }

  /** One write at a time, of the newest entries. Does not reject. */
  #save(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#writing = this.#writing.then(async () => {
      const snapshot = this.#unsaved
      if (snapshot === undefined) return
      this.#unsaved = undefined
      try {
        await writeDurably(this.#path, await textOf(snapshot))
      } catch (error) {
        this.#onProblem(`${this.#path} cannot be written: ${(error as Error).message}`)
      }
    })
    return this.#writing
  }

  /** Does not reject: a missing or damaged file is like none. */
  async #read(): Promise<Snapshot | undefined> {
    const read = await readDurably(this.#path, FILE_BYTES_MAX)
    if (read.ok) return snapshotOf(read.text)
    if (!read.isMissing) this.#onProblem(`${this.#path} ${read.reason}; it is not used`)
    return undefined
  }
}

/** One line with the revision of the store, and one for each entry. */
async function textOf({ entries, revision }: Snapshot): Promise<string> {
  const lines = [String(revision)]
  const kept = entries.filter(isRemembered)
  for (let at = 0; at < kept.length; at += ENTRIES_AT_ONCE) {
    for (const { key, value, revision } of kept.slice(at, at + ENTRIES_AT_ONCE)) {
      lines.push(JSON.stringify([key, value, String(revision)]))
    }
    await nextTurn()
  }
  return lines.join('\n')
}

/** The checksum of the file has shown that this program wrote the text. */
function snapshotOf(text: string): Snapshot {
  const [revision = '0', ...lines] = text.split('\n')
  const entries = lines.map((line): Entry => {
    const [key, value, at] = JSON.parse(line) as [string, string, string]
    return { key, value, revision: BigInt(at) }
  })
  return { entries, revision: BigInt(revision) }
}

function isRemembered({ key }: Entry): boolean {
  return key === SWITCH_KEY || key.startsWith(OVERRIDES_PREFIX) || key.startsWith(BLOCKS_PREFIX)
}
