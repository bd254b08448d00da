/**
 * The lease of a process: entries that etcd deletes if the process does not renew them. If the
 * lease has ended, such as while etcd was away, another one is granted and the entries are written
 * again.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Write } from '../key-value.ts'
import type { EtcdClient } from './etcd-client.ts'
import { fieldsOf, type GatewayMessages, numberOf } from './gateway-messages.ts'

/** A dead node disappears within this time. */
const TTL_SECONDS = 15

/** Two renewals may be lost. */
const RENEW_MS = 4_000

const CALL = { timeoutMs: 2_000, isRepeatable: true } as const

export class EtcdLease {
  readonly #client: EtcdClient
  readonly #messages: GatewayMessages
  /** The values of leased entries, to write them again. */
  readonly #values = new Map<string, string>()
  readonly #closing = new AbortController()
  #id: Promise<string> | undefined
  #renewing: Promise<void> | undefined

  constructor(client: EtcdClient, messages: GatewayMessages) {
    this.#client = client
    this.#messages = messages
  }

  /** Returns the id of the lease, which is granted at the first use. Rejects if etcd is away. */
  id(): Promise<string> {
    this.#id ??= this.#grant().catch((error) => {
      this.#id = undefined
      throw error
    })
    return this.#id
  }

  /** Remembers what was written, so that another lease can have it. */
  wrote(writes: readonly Write[]): void {
    for (const { key, value, isLeased } of writes) {
      if (isLeased && value !== undefined) this.#values.set(key, value)
      else this.#values.delete(key)
    }
    if (this.#values.size > 0) this.#renewing ??= this.#renew()
  }

  /** Ends the lease, which deletes its entries. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.#renewing
    const id = await this.#id?.catch(() => undefined)
    if (id === undefined) return
    await this.#client.call('/v3/lease/revoke', { ID: id }, CALL).catch(() => undefined)
  }

  async #grant(): Promise<string> {
    const body = await this.#client.call('/v3/lease/grant', { TTL: String(TTL_SECONDS) }, CALL)
    return String(fieldsOf(body).ID)
  }

  async #renew(): Promise<void> {
    const { signal } = this.#closing
    while (!signal.aborted) {
      await sleep(RENEW_MS, undefined, { signal }).catch(() => undefined)
      if (signal.aborted) return
      // A failure is not reported here: the follower of the store reports that etcd is away.
      await this.#renewOnce().catch(() => undefined)
    }
  }

  async #renewOnce(): Promise<void> {
    const id = await this.id()
    const body = await this.#client.call('/v3/lease/keepalive', { ID: id }, CALL)
    // A lease that has ended is answered like one that lives, but without TTL.
    const isAlive = numberOf(fieldsOf(fieldsOf(body).result).TTL) > 0n
    if (isAlive) return
    this.#id = undefined
    const writes = [...this.#values].map(([key, value]) => ({ key, value, isLeased: true }))
    const transaction = this.#messages.transaction([], writes, await this.id())
    await this.#client.call('/v3/kv/txn', transaction, CALL)
  }
}
