/**
 * The messages of etcd's JSON gateway. Keys and values are in base64, numbers of 64 bits are texts,
 * and fields whose value is zero are missing.
 *
 * https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/
 */

import type { Condition, Entry, Write } from '../key-value.ts'

export interface Header {
  readonly clusterId: string
  readonly revision: bigint
}

export interface RangeResponse {
  readonly header: Header
  readonly entries: readonly Entry[]
  readonly hasMore: boolean
}

export interface WatchMessage {
  readonly header: Header
  readonly isCreated: boolean
  /** Set if the watch has ended, with the reason. */
  readonly canceled: string | undefined
  readonly isCompacted: boolean
  readonly changes: readonly WatchChange[]
}

export interface WatchChange {
  readonly key: string
  readonly entry: Entry | undefined
  readonly revision: bigint
}

type Fields = Readonly<Record<string, unknown>>

/** Converts between keys of the store and keys of etcd, which begin with the prefix. */
export class GatewayMessages {
  readonly #prefix: string

  constructor(prefix: string) {
    this.#prefix = prefix
  }

  /** A key in base64. */
  key(key: string): string {
    return base64(this.#prefix + key)
  }

  /** A request for the keys from `from` to before `end`. */
  range(from: string, end: string, limit: number, isDescending: boolean): Fields {
    return {
      key: this.key(from),
      range_end: this.key(end),
      limit: String(limit),
      ...(isDescending && { sort_order: 'DESCEND', sort_target: 'KEY' }),
    }
  }

  transaction(
    conditions: readonly Condition[],
    writes: readonly Write[],
    leaseId: string | undefined,
  ): Fields {
    return {
      compare: conditions.map(({ key, revision }) => ({
        key: this.key(key),
        target: 'MOD',
        result: 'EQUAL',
        mod_revision: String(revision),
      })),
      success: writes.map(({ key, value, isLeased }) =>
        value === undefined
          ? { request_delete_range: { key: this.key(key) } }
          : {
              request_put: {
                key: this.key(key),
                value: base64(value),
                ...(isLeased && leaseId !== undefined && { lease: leaseId }),
              },
            },
      ),
      failure: [...new Set(conditions.map(({ key }) => key))].map((key) => ({
        request_range: { key: this.key(key) },
      })),
    }
  }

  readRange(body: unknown): RangeResponse {
    const { header, kvs, more } = fieldsOf(body)
    return {
      header: readHeader(header),
      entries: listOf(kvs).map((kv) => this.#entry(kv)),
      hasMore: more === true,
    }
  }

  readTransaction(body: unknown) {
    const { header, succeeded, responses } = fieldsOf(body)
    const current = listOf(responses).flatMap((response) => {
      const { response_range: range } = fieldsOf(response)
      return range === undefined ? [] : listOf(fieldsOf(range).kvs).map((kv) => this.#entry(kv))
    })
    return { header: readHeader(header), isApplied: succeeded === true, current }
  }

  readWatch(body: unknown): WatchMessage {
    const result = fieldsOf(fieldsOf(body).result)
    const isCanceled = result.canceled === true
    const reason = typeof result.cancel_reason === 'string' ? result.cancel_reason : 'canceled'
    return {
      header: readHeader(result.header),
      isCreated: result.created === true,
      canceled: isCanceled ? reason : undefined,
      isCompacted: numberOf(result.compact_revision) > 0n,
      changes: listOf(result.events).map((event) => this.#change(event)),
    }
  }

  #change(event: unknown): WatchChange {
    const { type, kv } = fieldsOf(event)
    const entry = this.#entry(kv)
    const isDeleted = type === 'DELETE'
    return { key: entry.key, entry: isDeleted ? undefined : entry, revision: entry.revision }
  }

  #entry(kv: unknown): Entry {
    const { key, value, mod_revision: revision } = fieldsOf(kv)
    return {
      key: textOf(key).slice(this.#prefix.length),
      value: textOf(value),
      revision: numberOf(revision),
    }
  }
}

export function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

export function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {}
}

export function readHeader(value: unknown): Header {
  const { cluster_id: clusterId, revision } = fieldsOf(value)
  return { clusterId: String(clusterId ?? ''), revision: numberOf(revision) }
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? Buffer.from(value, 'base64').toString('utf8') : ''
}

export function numberOf(value: unknown): bigint {
  return typeof value === 'string' && /^-?\d{1,20}$/.test(value) ? BigInt(value) : 0n
}
