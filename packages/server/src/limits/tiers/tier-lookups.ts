/**
 * Tiers that another service knows, looked up over HTTP and cached. A known caller never waits: a
 * stale tier is used until there is a new one, and while the service does not respond. Concurrent
 * look-ups of one caller are one request.
 *
 * Ids are attacker-controlled. Unknown ids have their own cache, which cannot evict known ones, and
 * the number of concurrent look-ups is bounded; beyond it, the tier is unknown.
 */

import type { Clock, MaybePromise } from 'tidegate'
import type { TierCacheSettings } from '../limit-settings.ts'
import type { PolicyObserver } from '../limits-observer.ts'

export interface TierLookupOptions {
  /** With `{key}` in the place of the id. */
  readonly url: string
  readonly timeoutMs: number
  readonly names: readonly string[]
  readonly cache: TierCacheSettings
  readonly clock: Clock
  readonly observer: PolicyObserver
}

interface Entry {
  readonly tier: string | undefined
  readonly expiresAt: number
}

/** The caches, for the look-ups of the next policy. */
export interface TierMemory {
  readonly known: Map<string, Entry>
  readonly unknown: Map<string, Entry>
}

/** Enough for a start with empty caches, and little load for a small service. */
const LOOKUPS_MAX = 64

/** `{"tier": "premium"}` takes 20 bytes. */
const ANSWER_BYTES_MAX = 16 * 1024

/** A longer text is not an id, and servers refuse such URLs. */
const ID_LENGTH_MAX = 256

export class TierLookups {
  readonly #options: TierLookupOptions
  readonly memory: TierMemory
  readonly #underWay = new Map<string, Promise<string | undefined>>()
  #isClosed = false

  constructor(options: TierLookupOptions, memory?: TierMemory) {
    this.#options = options
    this.memory = memory ?? { known: new Map(), unknown: new Map() }
  }

  /** Starts no further look-ups; pending ones complete, because requests wait for them. */
  close(): void {
    this.#isClosed = true
  }

  /** Undefined if it is not known. Never rejects. */
  tierOf(id: string): MaybePromise<string | undefined> {
    const { known, unknown } = this.memory
    const entry = recall(known, id) ?? recall(unknown, id)
    if (entry !== undefined && entry.expiresAt > this.#options.clock.now()) return entry.tier
    const asked = this.#ask(id, entry?.tier)
    return entry?.tier === undefined ? asked : entry.tier
  }

  #ask(id: string, lastTier: string | undefined): MaybePromise<string | undefined> {
    const underWay = this.#underWay.get(id)
    if (underWay !== undefined) return underWay
    const url = urlOf(this.#options.url, id)
    if (url === undefined || this.#isClosed) return lastTier
    if (this.#underWay.size >= LOOKUPS_MAX) {
      this.#tell('overloaded', `more than ${LOOKUPS_MAX} look-ups are under way`)
      return lastTier
    }
    const asked = this.#lookUp(url).then((answer) => {
      this.#underWay.delete(id)
      // A failed look-up does not change the tier of a known caller.
      const tier = answer === 'failed' ? lastTier : answer
      this.#remember(id, tier, answer === 'failed' || answer === undefined)
      return tier
    })
    this.#underWay.set(id, asked)
    return asked
  }

  /** The tier; undefined if the service knows none. Never rejects. */
  async #lookUp(url: string): Promise<string | 'failed' | undefined> {
    try {
      const signal = AbortSignal.timeout(this.#options.timeoutMs)
      const headers = { accept: 'application/json' }
      const response = await fetch(url, { signal, headers, redirect: 'error' })
      const text = await bodyOf(response)
      if (response.status === 404) return undefined
      if (!response.ok) return this.#fail(`status ${response.status}`)
      const tier = tierIn(text)
      if (tier === undefined) return this.#fail('the answer has no tier')
      if (this.#options.names.includes(tier)) return tier
      this.#tell('unknown-tier', 'the answer names a tier that the policy does not have')
      return undefined
    } catch (error) {
      return this.#fail(error instanceof Error ? error.name : 'no answer')
    }
  }

  #remember(id: string, tier: string | undefined, isShort: boolean): void {
    const { ttl, negativeTtl, entries } = this.#options.cache
    const entry = { tier, expiresAt: this.#options.clock.now() + (isShort ? negativeTtl : ttl) }
    const { known, unknown } = this.memory
    const [map, other] = tier === undefined ? [unknown, known] : [known, unknown]
    other.delete(id)
    map.delete(id)
    map.set(id, entry)
    if (map.size <= entries) return
    const [oldest] = map.keys()
    if (oldest !== undefined) map.delete(oldest)
  }

  #fail(detail: string): 'failed' {
    this.#tell('failed', detail)
    return 'failed'
  }

  #tell(reason: 'failed' | 'overloaded' | 'unknown-tier', detail: string): void {
    this.#options.observer({ type: 'tier-unknown', reason, detail })
  }
}

/** Moves the entry to the end, so that the first entry is the one to evict. */
function recall(map: Map<string, Entry>, id: string): Entry | undefined {
  const entry = map.get(id)
  if (entry === undefined) return undefined
  map.delete(id)
  map.set(id, entry)
  return entry
}

/** Undefined for an id that would lead to another place: dots would be ways up, encoded or not. */
function urlOf(template: string, id: string): string | undefined {
  if (id === '' || id === '.' || id === '..' || id.length > ID_LENGTH_MAX) return undefined
  if (!id.isWellFormed()) return undefined
  return template.replaceAll('{key}', () => encodeURIComponent(id))
}

async function bodyOf(response: Response): Promise<string> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true })
    if (text.length > ANSWER_BYTES_MAX) throw new RangeError('the answer is too long')
  }
  return text
}

function tierIn(text: string): string | undefined {
  const answer: unknown = JSON.parse(text)
  if (typeof answer !== 'object' || answer === null || !('tier' in answer)) return undefined
  return typeof answer.tier === 'string' ? answer.tier : undefined
}
