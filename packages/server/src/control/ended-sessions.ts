/**
 * The sessions that were ended by a log-out, until they would have ended by themselves. Every node
 * follows them, so that a copy of a cookie is refused on all of them. While the store is away, a
 * log-out holds on this node alone.
 */

import type { KeyValueStore } from './key-value.ts'

/** Below `live/`, which every node follows anyway. */
const PREFIX = 'live/ended/'

/** Far more than operators end in 8 hours. Beyond it, the one that ends first is forgotten. */
const ENDED_MAX = 1_000

/** Entries that a log-out removes at most, so that it stays a small transaction. */
const REMOVED_AT_ONCE = 50

export class EndedSessions {
  readonly #store: KeyValueStore | undefined
  readonly #end: (() => void) | undefined
  /** Ends in milliseconds since 1970, by the ids of sessions. */
  readonly #own = new Map<string, number>()
  #shared: ReadonlyMap<string, number> = new Map()

  /** Without a store, ids are kept in memory. */
  constructor(store?: KeyValueStore) {
    this.#store = store
    this.#end = store?.follow(PREFIX, {
      onChange: ({ entries }) => {
        const ends = entries.map(({ key, value }) => [key.slice(PREFIX.length), Number(value)])
        this.#shared = new Map(ends as [string, number][])
      },
      onContact: () => undefined,
    })
  }

  has(id: string): boolean {
    return this.#own.has(id) || this.#shared.has(id)
  }

  /** Resolves when the other nodes can know it, or when the store has not answered. */
  async add(id: string, endsAtMs: number, nowMs: number): Promise<void> {
    this.#own.set(id, endsAtMs)
    for (const one of surplus(this.#own, nowMs)) this.#own.delete(one)
    const removed = surplus(this.#shared, nowMs).slice(0, REMOVED_AT_ONCE)
    const writes = [
      { key: `${PREFIX}${id}`, value: String(endsAtMs) },
      ...removed.map((one) => ({ key: `${PREFIX}${one}`, value: undefined })),
    ]
    await this.#store?.transact([], writes).catch(() => undefined)
  }

  close(): void {
    this.#end?.()
  }
}

/** The ids that are over, and those beyond the maximum. */
function surplus(ends: ReadonlyMap<string, number>, nowMs: number): readonly string[] {
  const inOrder = [...ends].sort(([, one], [, other]) => one - other)
  const count = inOrder.length - ENDED_MAX
  return inOrder.filter(([, end], at) => !(end > nowMs) || at < count).map(([id]) => id)
}
