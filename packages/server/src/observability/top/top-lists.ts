/**
 * The most asked and the most refused keys of each limit, as counted in this process. Two windows
 * of 5 minutes are kept, so that a list is about the last 5 to 10 minutes.
 *
 * Keys leave this module as keyed digests, unless the caller may see them: a digest without a key
 * of an IPv4 address is found by trying all addresses.
 */

import type { Decision } from 'tidegate'
import type { Digest } from '../digests.ts'
import { SpaceSaving } from './space-saving.ts'

export const rankings = ['asked', 'refused'] as const

export type Ranking = (typeof rankings)[number]

export interface TopKey {
  readonly limit: string
  /** The key, or its digest `hmac-sha256:…`. */
  readonly key: string
  readonly count: number
  /**
   * The true count is between `count - error` and `count`. Those of `asked` are estimates: one in
   * 64 decisions is counted, for all 64.
   */
  readonly error: number
}

export interface TopList {
  /** The begin of the time that is counted, in milliseconds since 1970. */
  readonly sinceMs: number
  /** Decisions of all keys in that time. */
  readonly total: number
  readonly keys: readonly TopKey[]
}

/** Keys of each list: a key with more than 1.6 % of the decisions of a limit is never missed. */
const KEYS_MAX = 64

/** Limits with lists of their own, about 30 KB each; those of a larger policy share one. */
const LIMITS_MAX = 60

const OTHER = 'other'

/**
 * One decision of this many is counted as `asked`, for all of them: to replace a key takes half a
 * microsecond, and with many clients nearly every decision does. Refusals are all counted.
 */
const SAMPLE_EVERY = 64

const WINDOW_MS = 5 * 60_000

type Lists = Readonly<Record<Ranking, SpaceSaving>>

/** The lists of one window, by limit. */
type Window = Map<string, Lists>

export interface TopOptions {
  /** Makes digests of the keys, for callers that may not see them. */
  readonly digest: Digest
  /** The text of a key for operators. Default: the key itself. */
  readonly shown?: (key: string) => string
  readonly now?: () => number
  readonly sampleEvery?: number
}

export class TopLists {
  readonly #digest: Digest
  readonly #shown: (key: string) => string
  readonly #now: () => number
  readonly #every: number
  /** Decisions until the next one that is counted. */
  #skip = 1
  #current: Window = new Map()
  #previous: Window = new Map()
  #currentMs: number
  #previousMs: number

  constructor(options: TopOptions) {
    const { digest, shown = (key) => key, now = Date.now, sampleEvery = SAMPLE_EVERY } = options
    this.#digest = digest
    this.#shown = shown
    this.#now = now
    this.#every = sampleEvery
    this.#currentMs = now()
    this.#previousMs = this.#currentMs
  }

  /** Counts a decision about a key. The window turns when lists are read, or by `turn`. */
  add(limit: string, key: string, { allowed }: Decision): void {
    this.#skip -= 1
    if (allowed && this.#skip > 0) return
    const lists = this.#current.get(limit) ?? this.#listsOf(limit)
    if (!allowed) lists.refused.add(key)
    if (this.#skip > 0) return
    // A random distance, so that clients that take turns are counted alike.
    this.#skip = 1 + Math.floor(Math.random() * (2 * this.#every - 1))
    lists.asked.add(key, this.#every)
  }

  /** Begins another window if the current one is over. To be called from time to time. */
  turn(): void {
    const nowMs = this.#now()
    if (nowMs - this.#currentMs < WINDOW_MS) return
    const isLong = nowMs - this.#currentMs >= 2 * WINDOW_MS
    this.#previous = isLong ? new Map() : this.#current
    this.#previousMs = isLong ? nowMs : this.#currentMs
    this.#current = new Map()
    this.#currentMs = nowMs
  }

  /** `limit` undefined reads those of all limits. */
  read(by: Ranking, limit: string | undefined, count: number, isRaw: boolean): TopList {
    this.turn()
    const names = new Set([...this.#current.keys(), ...this.#previous.keys()])
    const wanted = [...names].filter((name) => limit === undefined || name === limit)
    const windows = [this.#current, this.#previous]
    const keys = wanted.flatMap((name) => {
      const lists = windows.flatMap((window) => window.get(name)?.[by] ?? [])
      return merged(lists).map((entry) => ({ limit: name, ...entry }))
    })
    const top = keys.sort((one, other) => other.count - one.count).slice(0, count)
    const all = windows.flatMap((window) => wanted.flatMap((name) => window.get(name)?.[by] ?? []))
    return {
      sinceMs: this.#previousMs,
      total: all.reduce((sum, { total }) => sum + total, 0),
      keys: top.map((one) => {
        const key = this.#shown(one.key)
        return { ...one, key: isRaw ? key : this.digestOf(key) }
      }),
    }
  }

  #listsOf(limit: string): Lists {
    const name = this.#current.size < LIMITS_MAX ? limit : OTHER
    const known = this.#current.get(name)
    if (known !== undefined) return known
    const lists = { asked: new SpaceSaving(KEYS_MAX), refused: new SpaceSaving(KEYS_MAX) }
    this.#current.set(name, lists)
    return lists
  }

  /** The digest of a key, for callers that may not see keys. */
  digestOf(key: string): string {
    return this.#digest(key)
  }
}

/** A key that is missing from a list may have had as many as the lowest of the list. */
function merged(lists: readonly SpaceSaving[]) {
  const keys = new Map<string, { count: number; error: number }>()
  for (const list of lists)
    for (const { key } of list.entries()) keys.set(key, { count: 0, error: 0 })
  for (const list of lists) {
    const known = new Map(list.entries().map((entry) => [entry.key, entry]))
    for (const [key, sum] of keys) {
      const { count, error } = known.get(key) ?? { count: list.missedMax, error: list.missedMax }
      sum.count += count
      sum.error += error
    }
  }
  return [...keys].map(([key, sum]) => ({ key, ...sum }))
}
