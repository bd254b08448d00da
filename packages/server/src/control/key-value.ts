/**
 * The contract of the place where operators' changes are kept: versions of the policy, overrides,
 * blocks, the switch, audit records and reports of nodes. etcd keeps them for a fleet, a file for
 * one node. Everything above this contract is written once.
 *
 * Atomicity: a transaction is applied completely or not at all, in one order for all clients.
 * Revisions: every transaction that changes something has a larger revision than those before it.
 * Keys are texts below the prefix of the store, such as `live/current`; values are texts. Failure:
 * operations reject with a `ControlError`; a rejected transaction may have been applied.
 */

export interface Entry {
  readonly key: string
  readonly value: string
  /** The revision of the entry's last change. */
  readonly revision: bigint
}

export interface Snapshot {
  readonly entries: readonly Entry[]
  /** The revision of the store that the entries are from. */
  readonly revision: bigint
}

/** A condition of a transaction. Revision 0 means that the key does not exist. */
export interface Condition {
  readonly key: string
  readonly revision: bigint
}

export interface Write {
  readonly key: string
  /** Undefined deletes the key. */
  readonly value: string | undefined
  /** Deletes the key if this process does not renew it: for reports of nodes. */
  readonly isLeased?: boolean
}

export type TransactionResult =
  | { readonly ok: true; readonly revision: bigint }
  /** A condition was not met. The entries of the conditions' keys, as they are. */
  | { readonly ok: false; readonly revision: bigint; readonly current: readonly Entry[] }

/** The entries below a prefix after a change. */
export interface KeyValueListener {
  onChange(snapshot: Snapshot): void
  /** The store does not answer, or answers again. */
  onContact(isReachable: boolean, problem?: string): void
}

export interface RangeOptions {
  /** The first key that is returned, for pages. */
  readonly from?: string
  readonly entriesMax?: number
  /** Returns the last keys first. */
  readonly isDescending?: boolean
}

export interface KeyValueStore {
  /** The nodes that see a change: the whole fleet, or this one alone. */
  readonly scope: 'fleet' | 'node'
  /** For people, such as `etcd at 10.0.0.1:2379` or `this node only`. */
  readonly description: string
  range(prefix: string, options?: RangeOptions): Promise<Snapshot>
  transact(conditions: readonly Condition[], writes: readonly Write[]): Promise<TransactionResult>
  /**
   * Reports the entries below a prefix: once they are known, and after every change, each
   * transaction as one change, until the returned function is called.
   */
  follow(prefix: string, listener: KeyValueListener): () => void
  close(): Promise<void>
}
