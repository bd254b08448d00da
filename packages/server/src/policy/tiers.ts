/**
 * The tier of a caller: what its API key or certificate carries, else what the policy says to look
 * up, else the default. Without a look-up over HTTP the answer is there at once.
 */

import { type Clock, type MaybePromise, systemClock } from 'tidegate'
import { claimOf } from './key-of.ts'
import type { PolicyObserver } from './policy-observer.ts'
import type { Identity } from './request-facts.ts'
import { TierLookups, type TierMemory } from './tier-lookups.ts'
import type { TierTable } from './tier-table.ts'
import type { TiersSection } from './tiers-section.ts'

export interface Tiers {
  tierOf(identity: Identity): MaybePromise<string>
  /** What was looked up so far, where it is looked up at that address. */
  memoryOf(url: string): TierMemory | undefined
  /** Looks nothing up any more. */
  close(): void
}

export interface TiersOptions {
  readonly clock?: Clock
  readonly observer?: PolicyObserver
  /** The file of `lookup.file`, as ids and tiers. */
  readonly table?: TierTable | undefined
  /** The tiers of the policy before: what they know is still true. */
  readonly after?: Tiers | undefined
}

/** Where there are no tiers, all callers are of one without a name. */
export const noTiers: Tiers = {
  tierOf: () => '',
  memoryOf: () => undefined,
  close: () => undefined,
}

/** A request waits that long for the tier of a caller who is not known yet. */
const TIMEOUT_MS_DEFAULT = 500

export function createTiers(section: TiersSection, options: TiersOptions = {}): Tiers {
  const { names, default: fallback, lookup } = section
  const { table = new Map<string, string>() } = options
  const lookups = lookupsOf(section, options)
  const isKnown = (tier: string | undefined): tier is string =>
    tier !== undefined && names.includes(tier)
  const orDefault = (tier: string | undefined) => (isKnown(tier) ? tier : fallback)
  const find = (identity: Identity): MaybePromise<string | undefined> => {
    if (lookup?.claim !== undefined) return claimOf(identity.claims, lookup.claim)
    const id = lookup?.by === undefined ? undefined : identity[lookup.by]
    if (id === undefined) return undefined
    return lookups === undefined ? table.get(id) : lookups.tierOf(id)
  }
  return {
    tierOf(identity) {
      if (isKnown(identity.tier)) return identity.tier
      const found = find(identity)
      return found instanceof Promise ? found.then(orDefault) : orDefault(found)
    },
    memoryOf: (url) => (url === lookup?.url ? lookups?.memory : undefined),
    close: () => lookups?.close(),
  }
}

function lookupsOf(
  { names, lookup, cache }: TiersSection,
  { clock = systemClock, observer = () => undefined, after }: TiersOptions,
): TierLookups | undefined {
  if (lookup?.url === undefined) return undefined
  const { url, timeout: timeoutMs = TIMEOUT_MS_DEFAULT } = lookup
  const options = { url, timeoutMs, names, cache, clock, observer }
  return new TierLookups(options, after?.memoryOf(url))
}
