/**
 * A record of one attempt of an operator to change or to read something. Records never contain a
 * secret: callers pass ids, digests and changed fields.
 */

export const actorKinds = ['token', 'certificate', 'session', 'cli', 'system', 'unknown'] as const

/** The author of an attempt. */
export interface Actor {
  readonly kind: (typeof actorKinds)[number]
  /** The id of a token, or the name in a certificate. */
  readonly id: string
  readonly name: string
  readonly role: string
}

/** The program itself, such as for entries that it removes. */
export const systemActor: Actor = { kind: 'system', id: 'system', name: 'system', role: 'admin' }

export const auditResults = ['done', 'refused', 'conflict', 'denied'] as const

/**
 * `done`: it was changed. `refused`: the change is not valid. `conflict`: another change was first.
 * `denied`: the actor may not do it.
 */
export type AuditResult = (typeof auditResults)[number]

export interface AuditTarget {
  /** Such as `policy`, `override`, `block`, `switch`, `token` or `counter`. */
  readonly type: string
  readonly id?: string | undefined
  readonly limit?: string | undefined
  /** The digest of a key, never the key itself. */
  readonly keyHash?: string | undefined
}

/** The part of a record that its author knows. */
export interface AuditEntry {
  readonly actor: Actor
  /** The address of the client. */
  readonly ip?: string | undefined
  /** Such as `override.set` or `policy.publish`. */
  readonly action: string
  readonly target: AuditTarget
  /** Changed fields only. */
  readonly before?: unknown
  readonly after?: unknown
  readonly reason?: string | undefined
  readonly result: AuditResult
  readonly versionFrom?: number | undefined
  readonly versionTo?: number | undefined
  readonly requestId?: string | undefined
  /** Attempts of the same kind that were left out since the record before. */
  readonly leftOut?: number | undefined
}

export interface AuditRecord extends AuditEntry {
  /** Counts from 1 without a gap. */
  readonly id: number
  /** An ISO time. */
  readonly at: string
  /** The hash of the record before; empty for the first one. */
  readonly prev: string
}
