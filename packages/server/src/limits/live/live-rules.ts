/**
 * An index of the live entries for the limits of one policy. It never changes: another set of
 * entries is another index, which replaces this one in a single step. Expired entries stay in it
 * and are not found.
 *
 * An entry for a limit that the policy does not have waits until a policy has it.
 */

import type { Limit } from 'tidegate'
import type { Now } from '../compile/document-overrides.ts'
import type { LimitSet } from '../compile/limit-set.ts'
import { makeLimit } from '../compile/make-limit.ts'
import type { Overrides } from '../compile/overrides.ts'
import type { RequestLimit } from '../compile/request-limit.ts'
import type { Identity, RequestFacts } from '../request-facts.ts'
import { AddressBlocks } from './address-blocks.ts'
import {
  blockedIdentities,
  type LiveBlock,
  type LiveEntries,
  type LiveOverride,
  type SwitchState,
} from './live-entries.ts'
import { holding, type Places, place } from './placed.ts'

type IdentityKind = (typeof blockedIdentities)[number]

export class LiveRules implements Overrides {
  readonly entries: LiveEntries
  readonly hasBlocks: boolean
  /** False if no request has to be matched and its keys read to find its blocks. */
  readonly hasKeyBlocks: boolean
  readonly #now: Now
  readonly #limits: LimitSet
  readonly #overrides: ReadonlyMap<string, Places<string, LiveOverride>>
  /** Made when they are first needed: 50,000 at once would take a tenth of a second. */
  readonly #made = new Map<LiveOverride, Limit | undefined>()
  readonly #addresses: AddressBlocks | undefined
  readonly #identities: ReadonlyArray<readonly [IdentityKind, Places<string, LiveBlock>]>
  readonly #keys: ReadonlyMap<string, Places<string, LiveBlock>>

  constructor(entries: LiveEntries, limits: LimitSet, now: Now) {
    const { blocks } = entries
    const hasAddresses = blocks.some(({ kind }) => kind === 'ip' || kind === 'cidr')
    this.entries = entries
    this.#now = now
    this.#limits = limits
    this.#overrides = byLimitAndKey(entries.overrides, limits)
    this.#addresses = hasAddresses ? new AddressBlocks(blocks, now) : undefined
    this.#identities = byIdentity(blocks)
    this.#keys = byLimitAndKey(blocks.filter(isOfKey), limits)
    this.hasKeyBlocks = this.#keys.size > 0
    this.hasBlocks = hasAddresses || this.#identities.length > 0 || this.hasKeyBlocks
  }

  /** The state of the switch for limits. */
  get state(): SwitchState {
    const entry = this.entries.switch
    if (entry === undefined || entry.limits === 'on') return 'on'
    return entry.expiresAt > this.#now() ? entry.limits : 'on'
  }

  /** True while the switch lifts all blocks. */
  get areBlocksLifted(): boolean {
    const entry = this.entries.switch
    return entry?.blocks === 'off' && entry.expiresAt > this.#now()
  }

  overrideFor(limitName: string, key: string): Limit | undefined {
    const override = this.findOverride(limitName, key)
    return override === undefined ? undefined : this.#limitOf(override)
  }

  findOverride(limitName: string, key: string): LiveOverride | undefined {
    const placed = this.#overrides.get(limitName)?.get(key)
    return placed === undefined ? undefined : holding(placed, this.#now())
  }

  addressBlock(ip: string | undefined): LiveBlock | undefined {
    if (this.#addresses === undefined || ip === undefined || this.areBlocksLifted) return undefined
    return this.#addresses.find(ip)
  }

  identityBlock({ identity }: Pick<RequestFacts, 'identity'>): LiveBlock | undefined {
    for (const [kind, places] of this.#identities) {
      const value = identity[kind]
      const placed = value === undefined ? undefined : places.get(value)
      const block = placed === undefined ? undefined : holding(placed, this.#now())
      if (block !== undefined && !this.areBlocksLifted) return block
    }
    return undefined
  }

  keyBlock(limitName: string, key: string): LiveBlock | undefined {
    const placed = this.#keys.get(limitName)?.get(key)
    const block = placed === undefined ? undefined : holding(placed, this.#now())
    return block === undefined || this.areBlocksLifted ? undefined : block
  }

  /** Numbers that do not fit the limit change nothing, as if there were no override. */
  #limitOf(override: LiveOverride): Limit | undefined {
    if (this.#made.has(override)) return this.#made.get(override)
    const settings = this.#limits.byName.get(override.limit)?.settings
    let limit: Limit | undefined
    try {
      limit = settings && makeLimit(settings, override.set)
    } catch {
      limit = undefined
    }
    this.#made.set(override, limit)
    return limit
  }
}

function isOfKey(block: LiveBlock): block is LiveBlock & { limit: string; key: readonly string[] } {
  return block.kind === 'key' && block.limit !== undefined && block.key !== undefined
}

function byLimitAndKey<
  T extends {
    readonly limit: string
    readonly key: readonly string[]
    readonly expiresAt: number
    readonly at: number
  },
>(entries: readonly T[], { byName }: LimitSet): ReadonlyMap<string, Places<string, T>> {
  const byLimit = new Map<string, Places<string, T>>()
  for (const entry of entries) {
    const limit = byName.get(entry.limit)
    const key = limit === undefined ? undefined : liveKey(limit, entry.key)
    if (key === undefined) continue
    const places = byLimit.get(entry.limit) ?? new Map()
    byLimit.set(entry.limit, places)
    place(places, key, entry)
  }
  return byLimit
}

/** The key of a limit from its parts; undefined if their number is wrong. */
export function liveKey({ key }: RequestLimit, parts: readonly string[]): string | undefined {
  const [first] = key.alternatives
  return first?.parts === parts.length ? first.fromParts(parts) : undefined
}

function byIdentity(blocks: readonly LiveBlock[]) {
  return blockedIdentities.flatMap((kind: IdentityKind & keyof Identity) => {
    const places: Places<string, LiveBlock> = new Map()
    for (const block of blocks) if (block.kind === kind) place(places, block.value, block)
    return places.size === 0 ? [] : [[kind, places] as const]
  })
}
