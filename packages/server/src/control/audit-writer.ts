/**
 * How a change brings its audit record along: the writer returns conditions and writes that become
 * a part of the transaction of the change. Without a record there is no change.
 */

import type { Condition, KeyValueStore, Write } from './key-value.ts'

export interface AuditPart {
  readonly conditions: readonly Condition[]
  readonly writes: readonly Write[]
}

/** The versions of the policy that a change leads from and to. */
export interface VersionStep {
  readonly versionFrom: number
  readonly versionTo: number
}

/** Called again for each attempt, because another change may have moved the head of the audit. */
export type AuditWriter = (store: KeyValueStore, step?: VersionStep) => Promise<AuditPart>

/** For callers without an audit, such as tests. */
export const withoutAudit: AuditWriter = async () => ({ conditions: [], writes: [] })
