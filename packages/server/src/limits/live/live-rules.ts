/**
 * An index of the live entries for the limits of one configuration. It never changes: another set
 * of entries is another index, which replaces this one in a single step. Expired entries stay in it
 * and are not found.
 *
 * An entry for a limit that the configuration does not have waits until one has it.
 */

import type { Limit } from 'tidegate'
import type { Now } from '../compile/document-overrides.ts'
import type { LimitSet } from '../compile/limit-set.ts'
import { makeLimit } from '../compile/make-limit.ts'
import type { Overrides } from '../compile/overrides.ts'
import type { RequestLimit } from '../compile/request-limit.ts'
import type { RequestFacts } from '../request-facts.ts'
import { AddressBlocks } from './address-blocks.ts'
import {
  blockedIdentities,
  type LiveBlock,
  type LiveEntries,
  type LiveOverride,
  type SwitchState,
} from './live-entries.ts'
import { holding, type Placed, type Places, place, placedOn } from './placed.ts'
import { TextTable } from './text-table.ts'

/** How entries name limits and keys. Each front end has its own names. */
export interface LimitIndex {
  /** The key of a counter from the parts of an entry; undefined if no limit has such a key. */
  keyOf(limitName: string, parts: readonly string[]): string | undefined
  /** The numbers of an override. Throws if they do not fit the limit. */
  limitOf(override: LiveOverride): Limit | undefined
}

/** The live entries of one key. */
export interface KeyEntries {
  readonly override: Placed<LiveOverride> | undefined
  readonly block: Placed<LiveBlock> | undefined
  /**
   * True if `numbers` and `heldBlock` hold without an end. V8 keeps `until` outside of this object,
   * so that reading it is one more access to memory.
   */
  isLasting: boolean
  /** Until then they hold. */
  until: number
  numbers: Limit | undefined
  heldBlock: LiveBlock | undefined
}

/** The live entries of one limit. One look-up finds the overrides and blocks of a key. */
export type LiveKeys = TextTable<KeyEntries>

type IdentityBlocks = TextTable<Placed<LiveBlock>>

type IdentityKind = (typeof blockedIdentities)[number]

export class LiveRules implements Overrides {
  readonly entries: LiveEntries
  readonly hasBlocks: boolean
  /** False if no request has to be matched and its keys read to find its blocks. */
  readonly hasKeyBlocks: boolean
  readonly #now: Now
  readonly #index: LimitIndex
  readonly #keys: ReadonlyMap<string, LiveKeys>
  readonly #addresses: AddressBlocks | undefined
  readonly #hasIdentities: boolean
  /** A field for each kind, because every request looks into all of them. */
  readonly #users: IdentityBlocks | undefined
  readonly #apiKeys: IdentityBlocks | undefined
  readonly #organisations: IdentityBlocks | undefined
  readonly #certificates: IdentityBlocks | undefined

  constructor(entries: LiveEntries, index: LimitIndex, now: Now) {
    const { blocks } = entries
    const keyBlocks = blocks.filter(isOfKey)
    const hasAddresses = blocks.some(({ kind }) => kind === 'ip' || kind === 'cidr')
    this.entries = entries
    this.#now = now
    this.#index = index
    this.#keys = byLimitAndKey(entries.overrides, keyBlocks, index)
    this.#addresses = hasAddresses ? new AddressBlocks(blocks, now) : undefined
    this.#users = ofIdentity('user', blocks)
    this.#apiKeys = ofIdentity('apiKey', blocks)
    this.#organisations = ofIdentity('organisation', blocks)
    this.#certificates = ofIdentity('certificate', blocks)
    this.#hasIdentities = blocks.some(({ kind }) => blockedIdentities.some((one) => one === kind))
    this.hasKeyBlocks = keyBlocks.length > 0
    this.hasBlocks = hasAddresses || this.#hasIdentities || this.hasKeyBlocks
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

  /** Undefined if the limit has no entries, so that its keys need not be looked up. */
  keysOf(limitName: string): LiveKeys | undefined {
    return this.#keys.get(limitName)
  }

  /** What holds now. Numbers are made when they are needed: 50,000 at once take 0.1 s. */
  held(found: KeyEntries): Pick<KeyEntries, 'numbers' | 'heldBlock'> {
    if (found.isLasting || found.until > this.#now()) return found
    const { override, block } = found
    const held = override && holding(override, this.#now)
    found.numbers = held && this.#limitOf(held)
    found.heldBlock = block && holding(block, this.#now)
    // An entry that has ended never holds again.
    found.until = Math.min(held?.expiresAt ?? Infinity, found.heldBlock?.expiresAt ?? Infinity)
    found.isLasting = found.until === Infinity
    return found
  }

  overrideFor(limitName: string, key: string): Limit | undefined {
    const found = this.#keys.get(limitName)?.get(key)
    return found === undefined ? undefined : this.held(found).numbers
  }

  findOverride(limitName: string, key: string): LiveOverride | undefined {
    const override = this.#keys.get(limitName)?.get(key)?.override
    return override === undefined ? undefined : holding(override, this.#now)
  }

  addressBlock(ip: string | undefined): LiveBlock | undefined {
    if (this.#addresses === undefined || ip === undefined) return undefined
    const block = this.#addresses.find(ip)
    return block === undefined || this.areBlocksLifted ? undefined : block
  }

  identityBlock({ identity }: Pick<RequestFacts, 'identity'>): LiveBlock | undefined {
    if (!this.#hasIdentities) return undefined
    const block =
      this.#blockIn(this.#users, identity.user) ??
      this.#blockIn(this.#apiKeys, identity.apiKey) ??
      this.#blockIn(this.#organisations, identity.organisation) ??
      this.#blockIn(this.#certificates, identity.certificate)
    return block === undefined || this.areBlocksLifted ? undefined : block
  }

  keyBlock(limitName: string, key: string): LiveBlock | undefined {
    const found = this.#keys.get(limitName)?.get(key)
    const block = found && this.held(found).heldBlock
    return block === undefined || this.areBlocksLifted ? undefined : block
  }

  #blockIn(places: IdentityBlocks | undefined, value: string | undefined): LiveBlock | undefined {
    if (places === undefined || value === undefined) return undefined
    const placed = places.get(value)
    return placed === undefined ? undefined : holding(placed, this.#now)
  }

  /** Numbers that do not fit the limit change nothing, as if there were no override. */
  #limitOf(override: LiveOverride): Limit | undefined {
    try {
      return this.#index.limitOf(override)
    } catch {
      return undefined
    }
  }
}

/** Limits of a policy are named by `name`; a key has a text for each of its parts. */
export function indexOf({ byName }: LimitSet): LimitIndex {
  // Overrides with the same numbers share one limit, so that it stays in the cache of a core.
  const made = new Map<string, Limit>()
  return {
    keyOf(limitName, parts) {
      const limit = byName.get(limitName)
      return limit === undefined ? undefined : liveKey(limit, parts)
    },
    limitOf({ limit, set }) {
      const settings = byName.get(limit)?.settings
      if (settings === undefined) return undefined
      const numbers = JSON.stringify([limit, set.limit, set.per, set.burst, set.ttl])
      const known = made.get(numbers) ?? makeLimit(settings, set)
      made.set(numbers, known)
      return known
    },
  }
}

/**
 * The key of a limit from its parts; undefined if their number is wrong. `kind` names a fallback,
 * such as `ip`. Default: the first kind.
 */
export function liveKey(
  { key }: RequestLimit,
  parts: readonly string[],
  kind?: string,
): string | undefined {
  const { alternatives } = key
  const named =
    kind === undefined ? alternatives[0] : alternatives.find((one) => one.label === kind)
  return named?.parts === parts.length ? named.fromParts(parts) : undefined
}

type KeyBlock = LiveBlock & { readonly limit: string; readonly key: readonly string[] }

function isOfKey(block: LiveBlock): block is KeyBlock {
  return block.kind === 'key' && block.limit !== undefined && block.key !== undefined
}

function byLimitAndKey(
  overrides: readonly LiveOverride[],
  blocks: readonly KeyBlock[],
  index: LimitIndex,
): ReadonlyMap<string, LiveKeys> {
  const byLimit = new Map<string, Map<string, KeyEntries>>()
  const add = (
    limitName: string,
    parts: readonly string[],
    changed: (known: KeyEntries) => KeyEntries,
  ) => {
    const key = index.keyOf(limitName, parts)
    if (key === undefined) return
    const keys = byLimit.get(limitName) ?? new Map<string, KeyEntries>()
    byLimit.set(limitName, keys)
    keys.set(key, changed(keys.get(key) ?? noKeyEntries))
  }
  for (const one of overrides) {
    add(one.limit, one.key, (known) => ({ ...known, override: placedOn(known.override, one) }))
  }
  for (const one of blocks) {
    add(one.limit, one.key, (known) => ({ ...known, block: placedOn(known.block, one) }))
  }
  return new Map(Array.from(byLimit, ([name, keys]) => [name, new TextTable(keys)]))
}

const noKeyEntries: KeyEntries = Object.freeze({
  override: undefined,
  block: undefined,
  isLasting: false,
  until: -Infinity,
  numbers: undefined,
  heldBlock: undefined,
})

function ofIdentity(kind: IdentityKind, blocks: readonly LiveBlock[]): IdentityBlocks | undefined {
  const places: Places<string, LiveBlock> = new Map()
  for (const block of blocks) if (block.kind === kind) place(places, block.value, block)
  return places.size === 0 ? undefined : new TextTable(places)
}
