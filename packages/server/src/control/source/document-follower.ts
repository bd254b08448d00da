/**
 * Follows which version of the policy this node should have, and fetches its text when the pointer
 * moves. Versions are not watched themselves: only the pointers below `live/` are.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { entryOf } from '../entry-list.ts'
import type { KeyValueStore, Snapshot } from '../key-value.ts'
import {
  CANARY_KEY,
  type CanaryPointer,
  CURRENT_KEY,
  type CurrentPointer,
  isCanaryNode,
  type NodePlace,
  readCanary,
  readPointer,
} from '../versions/version-record.ts'
import { Versions } from '../versions/versions.ts'

export interface RemoteDocument {
  readonly version: number
  readonly hash: string
  readonly text: string
  /** In ISO 8601, by the clock of the publisher. */
  readonly publishedAt: string
}

export interface DocumentListener {
  /** Undefined if no version is published. */
  onDocument(document: RemoteDocument | undefined): void
  /** The pointer or the version cannot be used. The document before stays. */
  onProblem(problem: string): void
  onContact(isReachable: boolean, problem?: string): void
}

/** A version that could not be fetched is tried again after this time. */
const RETRY_MS = 1_000

/** Longer timers do not exist; it is looked at again then. */
const TIMER_MS_MAX = 2 ** 31 - 1

export class DocumentFollower {
  readonly #versions: Versions
  readonly #place: NodePlace
  readonly #listener: DocumentListener
  readonly #closing = new AbortController()
  readonly #stop: () => void
  #snapshot: Snapshot | undefined
  #current: CurrentPointer | undefined
  #isKnown = false
  #checking: Promise<void> | undefined
  #isChanged = false
  #canaryEnd: NodeJS.Timeout | undefined

  constructor(store: KeyValueStore, place: NodePlace, listener: DocumentListener) {
    this.#versions = new Versions(store)
    this.#place = place
    this.#listener = listener
    this.#stop = store.follow('live/', {
      onChange: (snapshot) => {
        this.#snapshot = snapshot
        this.#check()
      },
      onContact: (isReachable, problem) => listener.onContact(isReachable, problem),
    })
  }

  /** The revision of the store that is known. */
  get revision(): bigint {
    return this.#snapshot?.revision ?? 0n
  }

  close(): void {
    this.#closing.abort()
    clearTimeout(this.#canaryEnd)
    this.#stop()
  }

  /** One fetch at a time; a change during it leads to another one. */
  #check(): void {
    this.#isChanged = true
    this.#checking ??= this.#run().finally(() => {
      this.#checking = undefined
    })
  }

  async #run(): Promise<void> {
    while (this.#isChanged && !this.#closing.signal.aborted) {
      this.#isChanged = false
      try {
        await this.#fetch()
      } catch (error) {
        this.#listener.onProblem(error instanceof Error ? error.message : String(error))
        const { signal } = this.#closing
        await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined)
        this.#isChanged = true
      }
    }
  }

  async #fetch(): Promise<void> {
    const pointer = this.#pointer()
    if (pointer === undefined) {
      if (this.#isKnown && this.#current === undefined) return
      this.#current = undefined
      this.#isKnown = true
      this.#listener.onDocument(undefined)
      return
    }
    const { version, hash } = pointer
    if (this.#current?.version === version && this.#current.hash === hash) return
    const record = await this.#versions.get(version)
    if (record.hash !== hash) throw new Error(`version ${version} is not the one that is live`)
    if (this.#closing.signal.aborted) return
    this.#current = pointer
    this.#isKnown = true
    const { text, at: publishedAt } = record
    this.#listener.onDocument({ version, hash, text, publishedAt })
  }

  #pointer(): CurrentPointer | undefined {
    const entries = this.#snapshot?.entries ?? []
    const canaryEntry = entryOf(entries, CANARY_KEY)
    const canary = canaryEntry && readCanary(canaryEntry.value, CANARY_KEY)
    clearTimeout(this.#canaryEnd)
    if (canary !== undefined && isCanaryNode(canary, this.#place, Date.now())) {
      this.#endCanaryLater(canary)
      return canary
    }
    const current = entryOf(entries, CURRENT_KEY)
    return current && readPointer(current.value, CURRENT_KEY)
  }

  #endCanaryLater({ until }: CanaryPointer): void {
    const inMs = Math.min(Math.max(Date.parse(until) - Date.now() + 1, 1), TIMER_MS_MAX)
    this.#canaryEnd = setTimeout(() => this.#check(), inMs)
    this.#canaryEnd.unref()
  }
}
