/**
 * The contract of the versions of a policy, for the admin API. A version is immutable, and one
 * pointer names the current one. A rollback is a new version. A node that follows a file has no
 * versions.
 */

import type { Actor } from './audit/audit-record.ts'
import type { CanaryPlace, CanaryPointer } from './versions/version-record.ts'

export interface PolicyVersionSummary {
  /** Counts from 1. */
  readonly version: number
  readonly hash: string
  /** The name of the author. */
  readonly by: string
  /** An ISO time. */
  readonly at: string
  readonly why: string
  /** The version before; 0 for the first one. */
  readonly parent: number
  readonly rollbackOf?: number | undefined
}

export interface PolicyVersion extends PolicyVersionSummary {
  readonly text: string
}

/** The author of a version, and the reason. */
export interface PublishedBy {
  readonly actor: Actor
  readonly ip?: string | undefined
  readonly requestId?: string | undefined
  readonly why: string
}

export interface PublishRequest extends PublishedBy {
  readonly text: string
  /** The version that the author has seen; 0 for none. */
  readonly expected: number
}

export interface RollbackRequest extends PublishedBy {
  /** The version whose text is published again. */
  readonly to: number
  readonly expected: number
}

export interface CanaryRequest extends PublishRequest {
  /** The nodes that get the version. */
  readonly where: CanaryPlace
  /** The end of the canary. */
  readonly until: Date
}

export type CanaryResult = Exclude<PublishResult, { readonly ok: true }> | CanaryBegun

interface CanaryBegun {
  readonly ok: true
  readonly canary: CanaryPointer
}

export type PublishResult =
  | { readonly ok: true; readonly published: PolicyVersionSummary }
  /** The document is not valid. Each problem is a line. */
  | { readonly ok: false; readonly reason: 'invalid'; readonly problems: readonly string[] }
  /** Another version was published first. `diff` leads from the expected one to the current. */
  | {
      readonly ok: false
      readonly reason: 'conflict'
      readonly current: PolicyVersionSummary | undefined
      readonly diff: string
    }
  /** There is no version `to`, or no canary. */
  | { readonly ok: false; readonly reason: 'unknown' }

export interface PolicyVersions {
  /** The current version; undefined before the first one. */
  current(): Promise<PolicyVersion | undefined>
  /** The latest first, at most `countMax`, before version `before` if it is given. */
  history(countMax: number, before?: number): Promise<readonly PolicyVersionSummary[]>
  version(version: number): Promise<PolicyVersion | undefined>
  /** A unified diff of two versions; undefined if one of them is not known. */
  diff(from: number, to: number): Promise<string | undefined>
  publish(request: PublishRequest): Promise<PublishResult>
  rollback(request: RollbackRequest): Promise<PublishResult>
  /** The version for a part of the nodes; undefined without one. */
  canary(): Promise<CanaryPointer | undefined>
  /** Gives a text to a part of the nodes, for a time, in place of any canary before. */
  beginCanary(request: CanaryRequest): Promise<CanaryResult>
  /** Makes the version of the canary live on all nodes. */
  promote(request: PublishedBy): Promise<PublishResult>
  /** Ends the canary. Returns its version; undefined if there is none. */
  abort(request: PublishedBy): Promise<number | undefined>
}
