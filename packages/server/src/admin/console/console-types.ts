/**
 * The data of the console, as the admin API sends it: one snapshot, then a tick every second. The
 * file has types only, because the page is compiled with it.
 *
 * Times are in milliseconds since 1970. A number that is not known is null, never 0.
 */

import type { RegionsView } from './region-types.ts'

/** Requests of one second, by outcome. */
export interface SecondOfTraffic {
  readonly atMs: number
  readonly allowed: number
  /** A limit was exceeded: 429. */
  readonly denied: number
  /** An operator has blocked the client, or the key of a limit was missing. */
  readonly blocked: number
  /** The store of a limit did not answer, and the limit refuses then: 503. */
  readonly unavailable: number
  /** The process had too many requests. */
  readonly shed: number
  /** Decisions without the store. They are part of the outcomes above. */
  readonly degraded: number
  /** Time of a decision over the last 10 seconds; null without a decision. */
  readonly p50Ms: number | null
  readonly p99Ms: number | null
}

/** Columns instead of objects: 15 minutes are 900 seconds. */
export type TrafficColumns = {
  readonly [Field in keyof SecondOfTraffic]: readonly SecondOfTraffic[Field][]
}

export interface LimitTraffic {
  readonly name: string
  readonly allowedPerSecond: number
  readonly deniedPerSecond: number
  /** Requests that a limit in shadow mode would have refused. */
  readonly shadowDeniedPerSecond: number
  /** Decisions of the last 15 minutes. */
  readonly asked: number
  readonly denied: number
  readonly shadowAsked: number
  readonly shadowDenied: number
  /** Decisions of the last minutes by the share of the limit in use, in columns. */
  readonly used: readonly number[]
}

/** One limit over the last 15 minutes, a number for each `stepMs`. */
export interface LimitHistory {
  readonly name: string
  readonly stepMs: number
  readonly endMs: number
  readonly allowed: readonly number[]
  readonly denied: readonly number[]
  readonly shadowDenied: readonly number[]
}

export interface RankedKey {
  readonly limit: string
  /** The key, or its digest for callers that may not see keys. */
  readonly key: string
  /** The parts of the key as overrides name them; null if the caller may not see keys. */
  readonly parts: readonly string[] | null
  /** The kind of key, such as `ip` or `apiKey`. */
  readonly kind: string
  readonly count: number
  readonly error: number
  /** Refusals per second; null if not known. */
  readonly deniedPerSecond: number | null
  /** The first refusal that was seen without a pause of a minute; null if not known. */
  readonly sinceMs: number | null
  readonly lastMs: number | null
  /** The time that the last refused request was told to wait; null if not known. */
  readonly retryAfterMs: number | null
  readonly isShadow: boolean
}

export interface TopView {
  readonly sinceMs: number
  readonly refused: readonly RankedKey[]
  readonly asked: readonly RankedKey[]
}

export interface ShardView {
  /** Empty if the store has only one server. */
  readonly shard: string
  /** `closed` is healthy. */
  readonly breaker: 'closed' | 'open' | 'half-open' | null
  readonly commandsPerSecond: number
  readonly errorsPerSecond: number
  readonly p50Ms: number | null
  readonly p99Ms: number | null
  readonly chargesPerCommand: number | null
  readonly connections: number | null
}

export interface HotKey {
  readonly limit: string
  readonly key: string
  readonly perSecond: number
  readonly atMs: number
}

export interface StoreView {
  readonly kind: string
  readonly isConnected: boolean
  readonly shards: readonly ShardView[]
  readonly roundTripMs: number | null
  readonly deadlineMs: number | null
  readonly waitingCharges: number | null
  readonly leases: number | null
  readonly cachedDenials: number | null
  readonly hottestKeyCalls: number | null
  readonly processes: number | null
  readonly memoryBytes: number | null
  readonly hot: readonly HotKey[]
}

export interface RouteView {
  readonly route: string
  readonly perSecond: number
  readonly limitedPerSecond: number
  readonly failedPerSecond: number
  readonly p50Ms: number | null
  readonly p99Ms: number | null
}

/** Requests with idempotency keys: how many run or wait, and what became of the others. */
export interface IdempotencyView {
  readonly executing: number
  readonly waiting: number
  readonly executed: KeyCount
  readonly replayed: KeyCount
  /** The key is in use, belongs to another request, or has no response to repeat. */
  readonly conflicts: KeyCount
  /** Refused for any other reason, such as a missing key or a store that does not answer. */
  readonly refused: KeyCount
}

export interface KeyCount {
  readonly perSecond: number
  /** Since the process started. */
  readonly total: number
}

export interface TargetView {
  readonly upstream: string
  readonly target: string
  readonly state: string
  readonly inFlight: number | null
  readonly waiting: number | null
}

export interface NodeView {
  readonly node: string
  readonly region: string | null
  readonly version: number
  readonly state: string
  readonly problems: readonly string[]
  readonly program: string
  readonly startedAt: string
  readonly appliedAt: string
  /** True for the node that sends this. */
  readonly isOwn: boolean
  /** True while the node is one of the canary. */
  readonly isCanary: boolean
  /** Its last numbers; null if it has not reported any since the page was opened. */
  readonly traffic: NodeTraffic | null
}

/** Requests of a node, averages of 5 s, which nodes report while a page is open. */
export interface NodeTraffic {
  readonly allowedPerSecond: number
  /** Refused by limits or blocks. */
  readonly refusedPerSecond: number
  /** Decided without the store. */
  readonly degradedPerSecond: number
  /** Refused because the process had too many requests, or the store did not answer. */
  readonly failedPerSecond: number
  readonly p99Ms: number | null
}

/** A version of the policy for a part of the nodes. */
export interface CanaryView {
  readonly version: number
  /** The nodes that get it, in words. */
  readonly where: string
  readonly until: string
}

export interface ChangeView {
  readonly id: number
  readonly at: string
  readonly by: string
  readonly action: string
  readonly target: string
  readonly why: string | null
  readonly result: string
}

export interface SwitchView {
  readonly limits: 'on' | 'shadow' | 'off'
  readonly blocks: 'on' | 'off'
  readonly until: string | null
  readonly by: string | null
  readonly why: string | null
}

/** The parts that seldom change. */
export interface SlowView {
  readonly nodes: readonly NodeView[]
  readonly changes: readonly ChangeView[]
  readonly switch: SwitchView
  /** The version that is published for all nodes; null if none is. */
  readonly published: number | null
  readonly canary: CanaryView | null
  /** Null if the control store answers. */
  readonly controlProblem: string | null
}

export interface NodeState {
  readonly program: string
  readonly startedAt: string
  readonly isReady: boolean
  readonly policyVersion: string
  readonly policyLoadedAt: string
  readonly isEnabled: boolean
  readonly limits: number
  readonly refusedProblems: readonly string[]
  readonly controlKind: string
  readonly scope: 'node' | 'fleet'
  /** Null on a node without etcd. */
  readonly isControlConnected: boolean | null
  readonly publishedVersion: number | null
  readonly liveVersion: number | null
  readonly loopDelayMs: number
  readonly requestsInFlight: number
  readonly sheddingShare: number
  readonly overrides: number
  readonly blocks: number
}

export interface Tick {
  readonly atMs: number
  readonly traffic: SecondOfTraffic
  readonly state: NodeState
  readonly limits: readonly LimitTraffic[]
  readonly top: TopView
  readonly store: StoreView
  readonly routes: readonly RouteView[]
  readonly targets: readonly TargetView[]
  /** Null if the policy has no regions. */
  readonly regions: RegionsView | null
  /** Null if the policy in force has no idempotency keys. */
  readonly idempotency: IdempotencyView | null
}

export interface Snapshot extends Tick, SlowView {
  /** Upper bounds of the columns of `LimitTraffic.used`. */
  readonly usedBounds: readonly number[]
  readonly history: TrafficColumns
}

/** A limit of the policy in force. */
export interface LimitView {
  readonly name: string
  readonly mode: 'enforce' | 'shadow' | 'off'
  readonly algorithm: string
  /** The numbers in words, such as `100 per 1m`. */
  readonly numbers: string
  readonly limit: number
  readonly tiers: Readonly<Record<string, string>>
  /** The kind of key, such as `apiKey`. */
  readonly key: string
  readonly keyParts: number
  /** The requests that it is for, in words. */
  readonly match: string
  readonly rollout: number
  readonly within: string | null
}

/** Refusals of one key, the latest last. */
export interface RefusalView {
  readonly limit: string
  readonly key: string
  readonly isShadow: boolean
  readonly count: number
  readonly sinceMs: number
  readonly lastMs: number
  readonly last: readonly {
    readonly atMs: number
    readonly reason: string
    readonly retryAfterMs: number | null
  }[]
}

/** One client: an address, an API key, a user or an organisation. */
export interface ClientView {
  readonly kind: string
  readonly value: string
  readonly tier: string | null
  /** The list of `ipLists` that the address is on. */
  readonly list: string | null
  readonly switch: 'on' | 'shadow' | 'off'
  readonly block: {
    readonly id: string
    readonly kind: string
    readonly answer: number
    readonly untilMs: number | null
  } | null
  /** Those that apply first. */
  readonly limits: readonly ClientLimit[]
}

export interface ClientLimit {
  readonly name: string
  readonly mode: string
  /** Why it does not apply; null if it does. */
  readonly reason: string | null
  readonly state: ClientLimitState | null
}

export interface ClientLimitState {
  readonly keyKind: string
  readonly keyParts: readonly string[]
  readonly within: readonly string[] | null
  readonly keyHash: string
  /** The origin of the numbers: live override, override, tier or limit. */
  readonly source: string
  /** The id of the live override. */
  readonly override: string | null
  /** Counted by a fallback key, which overrides cannot name. */
  readonly isFallback: boolean
  readonly numbers: string
  readonly limit: number
  readonly used: number
  readonly left: number
  readonly held: number | null
  readonly leased: number | null
  readonly resetAfterMs: number | null
  readonly shard: string | null
  /** False if the store did not answer. */
  readonly isCertain: boolean
  readonly refusals: RefusalView | null
}

/** What the traffic of the last minutes would have met. */
export interface WhatIf {
  readonly problems: readonly string[]
  /** Seconds of traffic that were replayed. */
  readonly seconds: number
  readonly limits: readonly WhatIfLimit[]
  readonly added: readonly string[]
  readonly removed: readonly string[]
  readonly unchanged: number
}

export interface WhatIfLimit {
  readonly name: string
  readonly before: string
  readonly after: string
  /** Keys that were replayed, and of how many: the others were not kept. */
  readonly keys: number
  readonly keysSeen: number
  readonly asked: number
  readonly deniedBefore: number
  readonly deniedAfter: number
  /** Keys that would be refused and were not, those with the most refusals first. */
  readonly newlyRefused: readonly { readonly key: string; readonly denied: number }[]
  readonly newlyRefusedKeys: number
  /** Why the limit cannot be replayed; null if it was. */
  readonly reason: string | null
}
