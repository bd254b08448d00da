/**
 * The last refusals of each key, for the question of a customer: since when, how often and why. A
 * refusal adds to the entry of its key, which takes about 125 ns. Keys beyond the maximum replace
 * the key that came first, so that memory is bounded to about 1 MB whatever clients send.
 */

import type { Decision } from 'tidegate'

export interface Refusal {
  readonly atMs: number
  readonly reason: string
  /** Infinity if the time is not known. */
  readonly retryAfterMs: number
}

export interface RefusedKey {
  readonly limit: string
  readonly key: string
  readonly isShadow: boolean
  /** The first refusal without a pause of a minute after it. */
  readonly sinceMs: number
  readonly lastMs: number
  /** Refusals since `sinceMs`. */
  readonly count: number
  readonly perSecond: number
  /** The latest last. */
  readonly last: readonly Refusal[]
}

/** More than an operator looks at; entries take about 1 KB each. */
const KEYS_MAX = 1_000

/** Enough to see the rhythm of a client. */
const LAST_MAX = 20

/** After this time without a refusal, the next one begins another series. */
const PAUSE_MS = 60_000

const SECOND_MS = 1_000

interface Entry {
  readonly limit: string
  readonly key: string
  isShadow: boolean
  sinceMs: number
  lastMs: number
  count: number
  /** The second that is being counted, and the number of the whole second before it. */
  second: number
  inSecond: number
  before: number
  /** A ring of `LAST_MAX`. */
  readonly last: Refusal[]
  lastAt: number
}

export class RecentRefusals {
  readonly #entries = new Map<string, Map<string, Entry>>()
  readonly #order: Entry[] = []
  #oldest = 0
  readonly #now: () => number

  constructor(now: () => number = Date.now) {
    this.#now = now
  }

  add(limit: string, key: string, decision: Decision, isShadow: boolean): void {
    const nowMs = this.#now()
    const entry = this.#entries.get(limit)?.get(key) ?? this.#newEntry(limit, key, nowMs)
    if (nowMs - entry.lastMs > PAUSE_MS) {
      entry.sinceMs = nowMs
      entry.count = 0
    }
    const second = Math.floor(nowMs / SECOND_MS)
    if (second !== entry.second) {
      entry.before = second === entry.second + 1 ? entry.inSecond : 0
      entry.second = second
      entry.inSecond = 0
      // One refusal of a second is kept, so that a flood does not replace all others.
      keepLast(entry, {
        atMs: nowMs,
        reason: reasonOf(decision),
        retryAfterMs: decision.retryAfterMs,
      })
    }
    entry.isShadow = isShadow
    entry.inSecond += 1
    entry.count += 1
    entry.lastMs = nowMs
  }

  find(limit: string, key: string): RefusedKey | undefined {
    const entry = this.#entries.get(limit)?.get(key)
    return entry === undefined ? undefined : shown(entry, this.#now())
  }

  #newEntry(limit: string, key: string, nowMs: number): Entry {
    const entry: Entry = {
      ...{ limit, key, isShadow: false, sinceMs: nowMs, lastMs: nowMs, count: 0 },
      ...{ second: 0, inSecond: 0, before: 0, last: [], lastAt: 0 },
    }
    const oldest = this.#order[this.#oldest]
    if (oldest !== undefined) this.#entries.get(oldest.limit)?.delete(oldest.key)
    this.#order[this.#oldest] = entry
    this.#oldest = (this.#oldest + 1) % KEYS_MAX
    const ofLimit = this.#entries.get(limit) ?? new Map<string, Entry>()
    ofLimit.set(key, entry)
    this.#entries.set(limit, ofLimit)
    if (oldest !== undefined && this.#entries.get(oldest.limit)?.size === 0) {
      this.#entries.delete(oldest.limit)
    }
    return entry
  }
}

function keepLast(entry: Entry, refusal: Refusal): void {
  entry.last[entry.lastAt] = refusal
  entry.lastAt = (entry.lastAt + 1) % LAST_MAX
}

function shown(entry: Entry, nowMs: number): RefusedKey {
  const { limit, key, isShadow, sinceMs, lastMs, count, last, lastAt } = entry
  return {
    ...{ limit, key, isShadow, sinceMs, lastMs, count },
    perSecond: rateOf(entry, Math.floor(nowMs / SECOND_MS)),
    last: [...last.slice(lastAt), ...last.slice(0, lastAt)],
  }
}

/** The refusals of the last whole second. */
function rateOf({ second, inSecond, before }: Entry, now: number): number {
  if (second === now) return before
  return second === now - 1 ? inSecond : 0
}

/** The words of the decision, for people. */
function reasonOf({ degraded, source, remaining, limit }: Decision): string {
  if (degraded !== null) return `decided without the store (${degraded.reason}, ${degraded.mode})`
  const numbers = `${limit - Math.max(0, remaining)} of ${limit} used`
  return source === 'cache' ? `${numbers}, repeated from this process` : numbers
}
