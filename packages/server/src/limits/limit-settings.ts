/**
 * The settings of a set of limits, as plain values with every default filled in. The engine takes
 * nothing else: a front end such as the policy file parses and checks its own format into this
 * shape.
 */

import type { Accuracy, AlgorithmName, CalendarUnit, FailureMode, OverloadMode } from 'tidegate'
import type { Priority } from './priority.ts'

/** Parts of a key that consist of their name alone. */
export const plainKeys = [
  'apiKey',
  'user',
  'organisation',
  'certificate',
  'ip',
  'ip+userAgent',
  'path',
  'method',
  'route',
  'region',
  'tier',
  'everyone',
  'domain',
] as const

export type KeyPart =
  | (typeof plainKeys)[number]
  | { readonly header: string }
  | { readonly claim: string }
  /** The value of this entry of Envoy's descriptor. */
  | { readonly descriptor: string }
  /** The client's address; IPv6 by this many bits. */
  | { readonly ip: number }

export type KeySettings = KeyPart | KeyPart[]

/** For requests without a key: refuse, skip the limit, or count by another key. */
export type FallbackSettings =
  | 'deny'
  | 'skip'
  | KeySettings
  | { readonly key: KeySettings; readonly otherwise: 'deny' | 'skip' | KeySettings }

export interface MatchSettings {
  readonly methods?: readonly string[] | undefined
  /** Patterns that `isPathPattern` accepts. */
  readonly path?: readonly string[] | undefined
  /** Values by lower-case name; `*` stands for any value. */
  readonly headers?: Readonly<Record<string, readonly string[]>> | undefined
  readonly region?: string | undefined
  /** Domains of Envoy's rate limit requests. */
  readonly domain?: readonly string[] | undefined
  /** Values of a descriptor's entries by key; `*` stands for any value. */
  readonly descriptor?: Readonly<Record<string, readonly string[]>> | undefined
}

/** Numbers that replace those of a limit; times in milliseconds. */
export interface LimitChange {
  readonly limit?: number | undefined
  readonly per?: number | CalendarUnit | undefined
  readonly burst?: number | undefined
  readonly ttl?: number | undefined
}

export type CostSettings =
  | number
  | { readonly match: MatchSettings; readonly cost: number }[]
  | { readonly header: string; readonly max: number; readonly default: number }

export type LimitMode = 'enforce' | 'shadow' | 'off'

export interface LimitSettings extends LimitChange {
  readonly name: string
  readonly match?: MatchSettings | undefined
  readonly key: KeySettings
  readonly otherwise?: FallbackSettings | undefined
  readonly algorithm: AlgorithmName
  readonly limit: number
  readonly timeZone?: string | undefined
  readonly tiers?: Readonly<Record<string, LimitChange>> | undefined
  readonly cost: CostSettings
  readonly mode: LimitMode
  /** Percent of keys. */
  readonly rollout: number
  readonly onStoreError?: FailureMode | undefined
  readonly onOverload?: OverloadMode | undefined
  readonly accuracy?: Accuracy | undefined
  readonly priority?: Priority | undefined
  /** The name of the limit whose key the counters of this one lie within. */
  readonly within?: string | undefined
}

export interface OverrideSettings {
  readonly limit: string
  /** A text for each part of the key. */
  readonly key: readonly string[]
  readonly set: LimitChange
  /** In milliseconds since 1970. */
  readonly expires?: number | undefined
}

export interface IpListSettings {
  readonly deny: readonly string[]
  readonly allow: readonly string[]
}

export interface TierCacheSettings {
  readonly entries: number
  readonly ttl: number
  readonly negativeTtl: number
}

export interface TierSettings {
  readonly names: readonly string[]
  readonly default: string
  readonly lookup?:
    | {
        readonly claim?: string | undefined
        readonly url?: string | undefined
        readonly by?: 'apiKey' | 'user' | 'organisation' | undefined
        readonly timeout?: number | undefined
      }
    | undefined
  readonly priorities?: Readonly<Record<string, Priority>> | undefined
  readonly cache: TierCacheSettings
}

export interface LimitSetSettings {
  /** False admits every request without counting it. */
  readonly enabled: boolean
  readonly region?: string | undefined
  readonly ipLists: IpListSettings
  readonly tiers?: TierSettings | undefined
  readonly limits: readonly LimitSettings[]
  readonly overrides: readonly OverrideSettings[]
  readonly gateway: { readonly ipv6Prefix: number }
}
