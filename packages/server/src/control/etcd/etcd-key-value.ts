/**
 * The key-value store of a fleet, in etcd. Followers of one prefix share one watch.
 *
 * Whatever is below `live/` is what every node follows. Each transaction that writes there also
 * writes `live/.head`, which the followers' looks read. Callers never see that entry.
 */

import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { checkTransaction } from '../bounds.ts'
import { ControlError } from '../control-error.ts'
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
import { EtcdClient } from './etcd-client.ts'
import { controlErrorOf, transactionErrorOf } from './etcd-failure.ts'
import { EtcdFollower, type FollowedState } from './etcd-follower.ts'
import { EtcdLease } from './etcd-lease.ts'
import { EtcdRange } from './etcd-range.ts'
import type { EtcdSettings } from './etcd-settings.ts'
import { GatewayMessages } from './gateway-messages.ts'

const HEADED = 'live/'
const HEAD = `${HEADED}.head`

/** A lease that cannot be ended in this time ends by itself, within its own. */
const CLOSE_MS_MAX = 500

/** A leader is elected within about two seconds. */
const TRANSACTION = { timeoutMs: 5_000, isRepeatable: false } as const

interface Listening {
  readonly prefix: string
  readonly listener: KeyValueListener
}

interface Followed {
  readonly follower: EtcdFollower
  readonly listening: Set<Listening>
}

export class EtcdKeyValue implements KeyValueStore {
  readonly scope = 'fleet'
  readonly description: string
  readonly #client: EtcdClient
  readonly #messages: GatewayMessages
  readonly #range: EtcdRange
  readonly #lease: EtcdLease
  readonly #followed = new Map<string, Followed>()
  #isClosed = false

  constructor(settings: EtcdSettings) {
    this.#client = new EtcdClient(settings)
    this.#messages = new GatewayMessages(settings.prefix)
    this.#range = new EtcdRange(this.#client, this.#messages)
    this.#lease = new EtcdLease(this.#client, this.#messages)
    this.description = `etcd at ${this.#client.endpoints.description}`
  }

  range(prefix: string, options: RangeOptions = {}): Promise<Snapshot> {
    return this.#run(async () => {
      const { entries, header } = await this.#range.all(prefix, options)
      return { entries: visible(entries), revision: header.revision }
    })
  }

  transact(conditions: readonly Condition[], writes: readonly Write[]): Promise<TransactionResult> {
    return this.#run(async () => {
      checkTransaction(conditions, writes)
      const isLeased = writes.some((write) => write.isLeased)
      const leaseId = isLeased ? await this.#lease.id() : undefined
      const transaction = this.#messages.transaction(conditions, withHead(writes), leaseId)
      const body = await this.#client
        .call('/v3/kv/txn', transaction, TRANSACTION)
        .catch((failure) => {
          throw transactionErrorOf(failure, this.description)
        })
      const { header, isApplied, current } = this.#messages.readTransaction(body)
      if (!isApplied) return { ok: false, revision: header.revision, current }
      this.#lease.wrote(writes)
      return { ok: true, revision: header.revision }
    })
  }

  follow(prefix: string, listener: KeyValueListener): () => void {
    this.#checkOpen()
    const root = prefix.startsWith(HEADED) ? HEADED : prefix
    const followed = this.#followed.get(root) ?? this.#startFollowing(root)
    const listening = { prefix, listener }
    followed.listening.add(listening)
    // Later, as if the entries had to be loaded first.
    queueMicrotask(() => {
      const { state, isReachable } = followed.follower
      if (!followed.listening.has(listening) || state === undefined) return
      if (isReachable !== undefined) listener.onContact(isReachable)
      listener.onChange(snapshotOf(state, prefix))
    })
    return () => {
      followed.listening.delete(listening)
      if (followed.listening.size > 0 || this.#followed.get(root) !== followed) return
      followed.follower.close()
      this.#followed.delete(root)
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    for (const { follower } of this.#followed.values()) follower.close()
    this.#followed.clear()
    // Members that do not respond must not delay the end of the process.
    await Promise.race([this.#lease.close(), sleep(CLOSE_MS_MAX, undefined, { ref: false })])
    this.#client.close()
  }

  #startFollowing(root: string): Followed {
    const listening = new Set<Listening>()
    const follower = new EtcdFollower({
      client: this.#client,
      messages: this.#messages,
      range: this.#range,
      prefix: root,
      head: root === HEADED ? HEAD : undefined,
      onChange(state, keys) {
        for (const { prefix, listener } of [...listening]) {
          const isTouched = keys?.some((key) => key.startsWith(prefix) && key !== HEAD) ?? true
          if (isTouched) listener.onChange(snapshotOf(state, prefix))
        }
      },
      onContact(isReachable, problem) {
        for (const { listener } of [...listening]) listener.onContact(isReachable, problem)
      },
    })
    const followed = { follower, listening }
    this.#followed.set(root, followed)
    return followed
  }

  async #run<T>(operation: () => Promise<T>): Promise<T> {
    this.#checkOpen()
    try {
      return await operation()
    } catch (error) {
      throw controlErrorOf(error, this.description)
    }
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new ControlError('closed', `${this.description}: closed`)
  }
}

function withHead(writes: readonly Write[]): readonly Write[] {
  if (!writes.some(({ key }) => key.startsWith(HEADED))) return writes
  return [...writes, { key: HEAD, value: randomBytes(8).toString('hex') }]
}

function visible(entries: readonly Entry[]): readonly Entry[] {
  return entries.filter(({ key }) => key !== HEAD)
}

function snapshotOf({ entries, revision }: FollowedState, prefix: string): Snapshot {
  return { entries: visible(entriesBelow(entries, prefix)), revision }
}
