/**
 * The tier of a caller: that of its API key or certificate, else the one that is looked up, else
 * the default. Only a look-up over HTTP returns a promise.
 */

import { type Clock, type MaybePromise, systemClock } from 'tidegate'
import { claimOf } from '../key-plan.ts'
import type { TierSettings } from '../limit-settings.ts'
import type { PolicyObserver } from '../limits-observer.ts'
import type { Identity } from '../request-facts.ts'
import { TierLookups, type TierMemory } from './tier-lookups.ts'

/** Tiers by id. */
export type TierTable = ReadonlyMap<string, string>

export interface Tiers {
  tierOf(identity: Identity): MaybePromise<string>
  /** The cached tiers of look-ups at this URL. */
  memoryOf(url: string): TierMemory | undefined
  /** Ends look-ups. */
  close(): void
}

export interface TiersOptions {
  readonly clock?: Clock
  readonly observer?: PolicyObserver
  /** The file of `lookup.file`, as ids and tiers. */
  readonly table?: TierTable | undefined
  /** The tiers of the policy before: their cache is kept. */
  readonly after?: Tiers | undefined
}

/** Without tiers, all callers have the same tier, which has no name. */
export const noTiers: Tiers = {
  tierOf: () => '',
  memoryOf: () => undefined,
  close: () => undefined,
}

/** A request waits at most this long for the tier of an unknown caller. */
const TIMEOUT_MS_DEFAULT = 500

export function createTiers(section: TierSettings, options: TiersOptions = {}): Tiers {
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
  { names, lookup, cache }: TierSettings,
  { clock = systemClock, observer = () => undefined, after }: TiersOptions,
): TierLookups | undefined {
  if (lookup?.url === undefined) return undefined
  const { url, timeout: timeoutMs = TIMEOUT_MS_DEFAULT } = lookup
  const options = { url, timeoutMs, names, cache, clock, observer }
  return new TierLookups(options, after?.memoryOf(url))
}
