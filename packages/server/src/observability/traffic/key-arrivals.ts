/**
 * How much some keys of each limit have asked for, second by second over the last 5 minutes, so
 * that other numbers can be tried on it. The keys are those with the lowest hashes. While a limit
 * has few keys, all of them are in it; of many, keys with more decisions enter sooner.
 *
 * A decision takes two look-ups, and seldom a hash. Memory is bounded to
 * about 5 MB.
 */

import type { Decision, Limit } from 'tidegate'

export const ARRIVAL_SECONDS = 300

/** Keys of each limit: 2.4 KB each. */
const KEYS_MAX = 32

/** Limits with a sample; those of a larger policy have none. */
const LIMITS_MAX = 60

const HASH_MAX = 2 ** 32

/** One decision of this many may bring a key into the sample of a limit with many keys. */
const HASH_EVERY = 16

export interface KeyArrivals {
  readonly key: string
  /** The numbers that the last decision was made by. */
  readonly limit: Limit
  /** Units of each second, the oldest first. */
  readonly asked: Uint32Array
  readonly denied: Uint32Array
}

export interface LimitArrivals {
  readonly name: string
  /** An estimate of the number of keys, from the share of hashes that the sample covers. */
  readonly keysSeen: number
  readonly keys: readonly KeyArrivals[]
}

interface Entry {
  readonly key: string
  readonly hash: number
  limit: Limit
  /** The second of the newest column. */
  second: number
  readonly asked: Uint32Array
  readonly denied: Uint32Array
}

interface Sample {
  readonly entries: Map<string, Entry>
  /** Keys with a hash from here on are not in the sample. */
  below: number
}

export class Arrivals {
  readonly #samples = new Map<string, Sample>()
  readonly #now: () => number
  #second: number
  /** Decisions about keys that are not in a sample. */
  #skipped = 0

  constructor(now: () => number = Date.now) {
    this.#now = now
    this.#second = Math.floor(now() / 1_000)
  }

  /** To be called once a second: to read the clock takes as long as all the rest. */
  tick(): void {
    this.#second = Math.floor(this.#now() / 1_000)
    for (const [name, sample] of this.#samples) {
      for (const [key, { second }] of sample.entries) {
        if (this.#second - second >= ARRIVAL_SECONDS) sample.entries.delete(key)
      }
      if (sample.entries.size === 0) this.#samples.delete(name)
    }
  }

  add(name: string, key: string, cost: number, limit: Limit, { allowed }: Decision): void {
    const sample = this.#samples.get(name) ?? this.#newSample(name)
    if (sample === undefined) return
    const known = sample.entries.get(key)
    // To hash every key of a limit with many would take longer than all the rest.
    if (known === undefined && sample.below < HASH_MAX && ++this.#skipped % HASH_EVERY !== 0) return
    const entry = known ?? this.#newEntry(sample, key, limit)
    if (entry === undefined) return
    if (entry.second !== this.#second) forward(entry, this.#second)
    entry.limit = limit
    const at = this.#second % ARRIVAL_SECONDS
    entry.asked[at] = (entry.asked[at] as number) + cost
    if (!allowed) entry.denied[at] = (entry.denied[at] as number) + cost
  }

  read(name: string): LimitArrivals {
    const sample = this.#samples.get(name)
    if (sample === undefined) return { name, keysSeen: 0, keys: [] }
    const entries = [...sample.entries.values()]
    for (const entry of entries) forward(entry, this.#second)
    const first = (this.#second + 1) % ARRIVAL_SECONDS
    const ordered = (column: Uint32Array) =>
      column.map((_, at) => column[(first + at) % ARRIVAL_SECONDS] as number)
    return {
      name,
      keysSeen: Math.round((entries.length * HASH_MAX) / sample.below),
      keys: entries.map(({ key, limit, asked, denied }) => {
        return { key, limit, asked: ordered(asked), denied: ordered(denied) }
      }),
    }
  }

  #newSample(name: string): Sample | undefined {
    if (this.#samples.size >= LIMITS_MAX) return undefined
    const sample = { entries: new Map<string, Entry>(), below: HASH_MAX }
    this.#samples.set(name, sample)
    return sample
  }

  #newEntry(sample: Sample, key: string, limit: Limit): Entry | undefined {
    const hash = hashOf(key)
    if (hash >= sample.below) return undefined
    const entry: Entry = {
      ...{ key, hash, limit, second: this.#second },
      asked: new Uint32Array(ARRIVAL_SECONDS),
      denied: new Uint32Array(ARRIVAL_SECONDS),
    }
    sample.entries.set(key, entry)
    if (sample.entries.size > KEYS_MAX) halve(sample)
    return sample.entries.get(key)
  }
}

/** Keeps the half of the hashes that is lower, as often as needed. */
function halve(sample: Sample): void {
  while (sample.entries.size > KEYS_MAX) {
    sample.below /= 2
    for (const { key, hash } of sample.entries.values()) {
      if (hash >= sample.below) sample.entries.delete(key)
    }
  }
}

/** Clears the columns of the seconds that have passed. */
function forward(entry: Entry, second: number): void {
  const passed = Math.min(ARRIVAL_SECONDS, second - entry.second)
  for (let step = 1; step <= passed; step += 1) {
    const at = (entry.second + step) % ARRIVAL_SECONDS
    entry.asked[at] = 0
    entry.denied[at] = 0
  }
  entry.second = second
}

/** FNV-1a with the last steps of MurmurHash3. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
