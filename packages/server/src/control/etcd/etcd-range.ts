/** Reads entries of etcd: one, or all below a prefix in pages of one revision. */

import { VALUE_BYTES_MAX } from '../bounds.ts'
import { ControlError } from '../control-error.ts'
import { afterPrefix } from '../entry-list.ts'
import type { Entry, RangeOptions } from '../key-value.ts'
import type { CallOptions, EtcdClient } from './etcd-client.ts'
import { EtcdFailure } from './etcd-failure.ts'
import type { GatewayMessages, Header, RangeResponse } from './gateway-messages.ts'

export interface RangeResult {
  readonly entries: readonly Entry[]
  readonly header: Header
}

export type AllOptions = RangeOptions & {
  /** Leaves out the values. */
  readonly isKeysOnly?: boolean
}

/** Small enough that a page of overrides takes a few milliseconds. */
const PAGE_ENTRIES = 500

/** All overrides and blocks that are allowed, and as many audit records. */
const ENTRIES_MAX = 120_000
const BYTES_MAX = 64 * 1024 ** 2

const CALL: CallOptions = { timeoutMs: 5_000, isRepeatable: true }

/** One entry of the largest size that is written, in base64, and the fields around it. */
const ONE_ENTRY: CallOptions = { ...CALL, bytesMax: 1_500 * 1024 }

export class EtcdRange {
  readonly #client: EtcdClient
  readonly #messages: GatewayMessages

  constructor(client: EtcdClient, messages: GatewayMessages) {
    this.#client = client
    this.#messages = messages
  }

  /** Reads one entry, with `revision` as it was then. */
  async one(key: string, options: CallOptions & { readonly revision?: bigint }) {
    const { revision, ...call } = options
    const pinned = revision === undefined ? {} : { revision: String(revision) }
    const body = { key: this.#messages.key(key), ...pinned }
    const response = await this.#client.call('/v3/kv/range', body, call)
    const { entries, header } = this.#messages.readRange(response)
    return { entry: entries[0], header }
  }

  /** Every page is of the revision of the first one. */
  async all(prefix: string, options: AllOptions = {}): Promise<RangeResult> {
    const { entriesMax = ENTRIES_MAX + 1, isDescending = false } = options
    let [from, end] = bounds(prefix, options)
    let pageEntries = PAGE_ENTRIES
    let header: Header | undefined
    const entries: Entry[] = []
    for (let bytes = 0; ; ) {
      const limit = Math.min(pageEntries, entriesMax - entries.length)
      const request = {
        ...this.#messages.range(from, end, limit, isDescending),
        ...(options.isKeysOnly && { keys_only: true }),
        ...(header && { revision: String(header.revision) }),
      }
      const page = await this.#page(request, limit === 1 ? ONE_ENTRY : CALL)
      if (page === 'large' && limit > 1) {
        pageEntries = Math.ceil(limit / 8)
        continue
      }
      if (page === 'large') throw tooLarge(prefix)
      header ??= page.header
      entries.push(...page.entries)
      bytes += page.entries.reduce((sum, { value }) => sum + value.length, 0)
      checkSize(prefix, entries.length, bytes)
      const last = page.entries.at(-1)
      if (!page.hasMore || last === undefined || entries.length >= entriesMax) {
        return { entries, header }
      }
      if (isDescending) end = last.key
      else from = `${last.key}\0`
    }
  }

  async #page(request: object, call: CallOptions): Promise<RangeResponse | 'large'> {
    try {
      const response = await this.#client.call('/v3/kv/range', request, call)
      return this.#messages.readRange(response)
    } catch (error) {
      if (error instanceof EtcdFailure && error.kind === 'large') return 'large'
      throw error
    }
  }
}

function bounds(prefix: string, { from, isDescending }: RangeOptions): [string, string] {
  const end = afterPrefix(prefix)
  if (from === undefined) return [prefix, end]
  return isDescending ? [prefix, `${from}\0`] : [from, end]
}

function tooLarge(prefix: string): ControlError {
  const text = `etcd has an entry below ${prefix} that is too large`
  return new ControlError('out-of-bounds', `${text}; allowed: ${VALUE_BYTES_MAX} bytes`)
}

function checkSize(prefix: string, count: number, bytes: number): void {
  if (count <= ENTRIES_MAX && bytes <= BYTES_MAX) return
  const allowed = `${ENTRIES_MAX} entries and ${BYTES_MAX} characters`
  throw new ControlError('out-of-bounds', `etcd has more below ${prefix}; allowed: ${allowed}`)
}
