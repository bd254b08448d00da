/** The operator or program that calls the admin API. */

import type { Actor } from '../../control/audit/audit-record.ts'
import type { Role } from '../../control/roles.ts'

export interface Caller extends Actor {
  readonly role: Role
}

/** A caller without a valid credential, for records of failed log-ins. */
export const unknownActor: Actor = { kind: 'unknown', id: '', name: 'unknown', role: 'none' }
