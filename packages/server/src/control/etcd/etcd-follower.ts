/**
 * Follows the entries below a prefix: a watch for speed, and a look every 5 s for certainty.
 * Watches can end silently, such as when a member is stopped or a route is gone. The look finds
 * that out.
 *
 * Every transaction of the store that writes below a headed prefix also writes its head: one small
 * entry with a random value. A look reads the head alone. After an interruption, the head of the
 * last seen revision shows whether the history is still the same one.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { afterPrefix, changedEntries, entryOf } from '../entry-list.ts'
import type { Entry } from '../key-value.ts'
import { BackOff } from './back-off.ts'
import type { EtcdClient, OpenStream } from './etcd-client.ts'
import { EtcdFailure } from './etcd-failure.ts'
import type { EtcdRange } from './etcd-range.ts'
import { isAboutData, openWatch } from './etcd-watch.ts'
import type { GatewayMessages, Header, WatchMessage } from './gateway-messages.ts'

export interface FollowerOptions {
  readonly client: EtcdClient
  readonly messages: GatewayMessages
  readonly range: EtcdRange
  readonly prefix: string
  /** The key that every transaction below the prefix writes, if there is one. */
  readonly head: string | undefined
  /** `keys` undefined: all entries were loaded. */
  onChange(state: FollowedState, keys: readonly string[] | undefined): void
  onContact(isReachable: boolean, problem?: string): void
}

export interface FollowedState {
  readonly entries: readonly Entry[]
  /** Every change up to this revision is in the entries. */
  readonly revision: bigint
  readonly clusterId: string
}

/** A silent watch is found within this time and a second. */
const LOOK_EVERY_MS = 5_000
const LOOK = { timeoutMs: 1_000, isRepeatable: true } as const

/** How long the watch may take to report what a look has seen. */
const GRACE_MS = 500

export class EtcdFollower {
  readonly #options: FollowerOptions
  readonly #backOff = new BackOff()
  readonly #closing = new AbortController()
  #state: FollowedState | undefined
  #isReachable: boolean | undefined

  constructor(options: FollowerOptions) {
    this.#options = options
    void this.#run()
  }

  get state(): FollowedState | undefined {
    return this.#state
  }

  get isReachable(): boolean | undefined {
    return this.#isReachable
  }

  close(): void {
    this.#closing.abort()
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing
    while (!signal.aborted) {
      try {
        await this.#connect()
        await this.#watch()
      } catch (error) {
        if (signal.aborted) return
        this.#handle(error)
        await this.#backOff.wait(signal)
      }
    }
  }

  /** Loads everything, or finds that the last seen revision is still a part of the history. */
  async #connect(): Promise<void> {
    if (this.#state !== undefined && !(await this.#isContinued(this.#state))) {
      this.#state = undefined
    }
    if (this.#state === undefined) {
      const { prefix, range } = this.#options
      const { entries, header } = await range.all(prefix)
      const { revision, clusterId } = header
      this.#use({ entries, revision, clusterId }, undefined)
    }
    this.#contact(true)
  }

  #handle(error: unknown): void {
    if (!(error instanceof EtcdFailure)) {
      // Such as more entries than are allowed. The entries before stay.
      this.#contact(false, error instanceof Error ? error.message : String(error))
      return
    }
    // Whatever the watch could not report is loaded.
    if (isAboutData(error)) this.#state = undefined
    else if (!(error instanceof WatchEnd)) this.#contact(false, error.message)
  }

  /** Resolves never; rejects when the watch has ended or has to be replaced. */
  async #watch(): Promise<never> {
    const { client, messages, prefix } = this.#options
    const ended = Promise.withResolvers<never>()
    ended.promise.catch(() => undefined)
    const startRevision = (this.#state?.revision ?? 0n) + 1n
    const range = { from: prefix, end: afterPrefix(prefix), startRevision }
    const stream = await openWatch(client, messages, range, {
      onMessage: (message) => this.#receive(message, ended.reject),
      onEnd: (failure) => ended.reject(watchEnd(failure)),
    })
    this.#backOff.reset()
    const onAbort = () => ended.reject(new WatchEnd('away', 'closed'))
    this.#closing.signal.addEventListener('abort', onAbort, { once: true })
    if (this.#closing.signal.aborted) onAbort()
    try {
      return await Promise.race([ended.promise, this.#lookRepeatedly(stream)])
    } finally {
      stream.close()
      this.#closing.signal.removeEventListener('abort', onAbort)
    }
  }

  #receive({ header, changes }: WatchMessage, end: (failure: EtcdFailure) => void): void {
    const state = this.#state
    if (state === undefined) return
    if (header.clusterId !== state.clusterId) {
      this.#state = undefined
      end(new WatchEnd('away', 'another cluster answers'))
      return
    }
    // Without changes this is a report of progress: all changes up to it were sent.
    const last = changes.at(-1)?.revision ?? header.revision
    const revision = last > state.revision ? last : state.revision
    const entries = changes.length === 0 ? state.entries : changedEntries(state.entries, changes)
    const keys = changes.map(({ key }) => key)
    this.#use({ entries, revision, clusterId: state.clusterId }, keys)
  }

  async #lookRepeatedly(stream: OpenStream): Promise<never> {
    const { signal } = this.#closing
    for (let missed = 0; ; ) {
      await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined)
      if (signal.aborted) throw new WatchEnd('away', 'closed')
      try {
        await this.#look()
        missed = 0
      } catch (error) {
        if (!(error instanceof EtcdFailure) || error instanceof WatchEnd) throw error
        missed += 1
        if (missed === 2 || error.kind === 'denied') this.#contact(false, error.message)
        if (missed >= 2) throw error
        continue
      }
      this.#contact(true)
      // The member of the watch did not answer the look, so another one did.
      if (this.#options.client.endpoints.current !== stream.endpoint) {
        throw new WatchEnd('away', 'the member of the watch does not answer')
      }
    }
  }

  /** Rejects with WatchEnd if the watch has missed something. */
  async #look(): Promise<void> {
    const { found, header } = await this.#newest()
    if (this.#isOther(header)) {
      this.#state = undefined
      throw new WatchEnd('away', 'etcd was restored from a backup, or is another cluster')
    }
    if (found <= (this.#state?.revision ?? 0n)) return
    await sleep(GRACE_MS)
    if (found <= (this.#state?.revision ?? 0n)) return
    this.#state = undefined
    throw new WatchEnd('away', `the watch has not reported revision ${found}`)
  }

  /** Returns the revision of the newest change below the prefix. */
  async #newest(): Promise<{ readonly found: bigint; readonly header: Header }> {
    const { head, range, prefix } = this.#options
    if (head !== undefined) {
      const { entry, header } = await range.one(head, LOOK)
      return { found: entry?.revision ?? 0n, header }
    }
    const { entries, header } = await range.all(prefix, { isKeysOnly: true })
    const known = this.#state?.entries ?? []
    const isDeleted = entries.length < known.length
    const newest = entries.reduce((max, { revision }) => (revision > max ? revision : max), 0n)
    return { found: isDeleted ? header.revision : newest, header }
  }

  #isOther({ revision, clusterId }: Header): boolean {
    const state = this.#state
    return state !== undefined && (revision < state.revision || clusterId !== state.clusterId)
  }

  /** Without a head, a watch cannot be resumed with certainty. */
  async #isContinued(state: FollowedState): Promise<boolean> {
    const { head, range } = this.#options
    if (head === undefined) return false
    try {
      const { entry, header } = await range.one(head, { ...LOOK, revision: state.revision })
      const known = entryOf(state.entries, head)
      const isSame = entry?.value === known?.value && entry?.revision === known?.revision
      return isSame && !this.#isOther(header)
    } catch (error) {
      if (error instanceof EtcdFailure && error.kind === 'compacted') return false
      throw error
    }
  }

  #use(state: FollowedState, keys: readonly string[] | undefined): void {
    this.#state = state
    if (keys === undefined || keys.length > 0) this.#options.onChange(state, keys)
  }

  #contact(isReachable: boolean, problem?: string): void {
    if (this.#closing.signal.aborted || isReachable === this.#isReachable) return
    this.#isReachable = isReachable
    this.#options.onContact(isReachable, problem)
  }
}

/** The end of a watch, which does not mean that etcd is away: the next call shows that. */
class WatchEnd extends EtcdFailure {}

function watchEnd(failure: EtcdFailure): EtcdFailure {
  return isAboutData(failure) ? failure : new WatchEnd(failure.kind, failure.message)
}
