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
import { FilteredMap } from './filtered-map.ts'
import {
  blockedIdentities,
  type LiveBlock,
  type LiveEntries,
  type LiveOverride,
  type SwitchState,
} from './live-entries.ts'
import { holding, type Placed, type Places, place, placedOn } from './placed.ts'

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
}

/** The live entries of one limit. One look-up finds the overrides and blocks of a key. */
export type LiveKeys = FilteredMap<KeyEntries>

type IdentityBlocks = FilteredMap<Placed<LiveBlock>>

type IdentityKind = (typeof blockedIdentities)[number]

export class LiveRules implements Overrides {
  readonly entries: LiveEntries
  readonly hasBlocks: boolean
  /** False if no request has to be matched and its keys read to find its blocks. */
  readonly hasKeyBlocks: boolean
  readonly #now: Now
  readonly #index: LimitIndex
  readonly #keys: ReadonlyMap<string, LiveKeys>
  /** Made when they are first needed: 50,000 at once would take a tenth of a second. */
  readonly #made = new Map<LiveOverride, Limit | undefined>()
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

  /** The numbers of the override that holds, if there is one. */
  numbersOf({ override }: KeyEntries): Limit | undefined {
    const held = override === undefined ? undefined : holding(override, this.#now())
    return held === undefined ? undefined : this.#limitOf(held)
  }

  /** The block that holds, if there is one and the switch does not lift it. */
  blockOf({ block }: KeyEntries): LiveBlock | undefined {
    const held = block === undefined ? undefined : holding(block, this.#now())
    return held === undefined || this.areBlocksLifted ? undefined : held
  }

  overrideFor(limitName: string, key: string): Limit | undefined {
    const found = this.#keys.get(limitName)?.get(key)
    return found === undefined ? undefined : this.numbersOf(found)
  }

  findOverride(limitName: string, key: string): LiveOverride | undefined {
    const override = this.#keys.get(limitName)?.get(key)?.override
    return override === undefined ? undefined : holding(override, this.#now())
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
    return found === undefined ? undefined : this.blockOf(found)
  }

  #blockIn(places: IdentityBlocks | undefined, value: string | undefined): LiveBlock | undefined {
    if (places === undefined || value === undefined) return undefined
    const placed = places.get(value)
    return placed === undefined ? undefined : holding(placed, this.#now())
  }

  /** Numbers that do not fit the limit change nothing, as if there were no override. */
  #limitOf(override: LiveOverride): Limit | undefined {
    if (this.#made.has(override)) return this.#made.get(override)
    let limit: Limit | undefined
    try {
      limit = this.#index.limitOf(override)
    } catch {
      limit = undefined
    }
    this.#made.set(override, limit)
    return limit
  }
}

/** Limits of a policy are named by `name`; a key has a text for each of its parts. */
export function indexOf({ byName }: LimitSet): LimitIndex {
  return {
    keyOf(limitName, parts) {
      const limit = byName.get(limitName)
      return limit === undefined ? undefined : liveKey(limit, parts)
    },
    limitOf({ limit, set }) {
      const settings = byName.get(limit)?.settings
      return settings && makeLimit(settings, set)
    },
  }
}

/** The key of a limit from its parts; undefined if their number is wrong. */
export function liveKey({ key }: RequestLimit, parts: readonly string[]): string | undefined {
  const [first] = key.alternatives
  return first?.parts === parts.length ? first.fromParts(parts) : undefined
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
    add(one.limit, one.key, ({ override, block }) => {
      return { override: placedOn(override, one), block }
    })
  }
  for (const one of blocks) {
    add(one.limit, one.key, ({ override, block }) => ({ override, block: placedOn(block, one) }))
  }
  return new Map(Array.from(byLimit, ([name, keys]) => [name, new FilteredMap(keys)]))
}

const noKeyEntries: KeyEntries = { override: undefined, block: undefined }

function ofIdentity(kind: IdentityKind, blocks: readonly LiveBlock[]): IdentityBlocks | undefined {
  const places: Places<string, LiveBlock> = new Map()
  for (const block of blocks) if (block.kind === kind) place(places, block.value, block)
  return places.size === 0 ? undefined : new FilteredMap(places)
}
