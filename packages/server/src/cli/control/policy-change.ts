/** What the subcommands of `tidegate policy` share: their options, and changes with an audit. */

import { hostname, userInfo } from 'node:os'
import { parseArgs } from 'node:util'
import type { Fleet } from '../../app/fleet.ts'
import type { AuditEntry, AuditResult } from '../../control/audit/audit-record.ts'
import type { AuditWriter } from '../../control/audit-writer.ts'
import { ControlError } from '../../control/control-error.ts'
import { plainText, reason } from '../../control/plain-text.ts'
import { publicationEntry } from '../../control/versions/audited-versions.ts'
import { sourceOptions } from '../source-flags.ts'
import { type Terminal, UsageError } from '../terminal.ts'
import { version as programVersion } from '../version.ts'

/** A user and a host. */
const author = plainText(200)

const options = {
  config: { type: 'string' },
  why: { type: 'string' },
  by: { type: 'string' },
  parent: { type: 'string' },
  wait: { type: 'string' },
  limit: { type: 'string' },
  region: { type: 'string' },
  nodes: { type: 'string' },
  share: { type: 'string' },
  for: { type: 'string' },
  json: { type: 'boolean', default: false },
  ...sourceOptions,
} as const

export type Values = ReturnType<typeof parsePolicyArgs>['values']

export interface Call {
  readonly fleet: Fleet
  readonly values: Values
  readonly names: readonly string[]
  readonly terminal: Terminal
}

export function parsePolicyArgs(args: readonly string[]) {
  return parseArgs({ args: [...args], options, allowPositionals: true })
}

/** Lost races and refused changes have a record as well. */
export async function audited<T>(
  call: Call,
  entry: AuditEntry,
  write: (audit: AuditWriter) => Promise<T>,
): Promise<T> {
  try {
    return await call.fleet.changes.run(entry, write)
  } catch (error) {
    const code = error instanceof ControlError ? error.code : undefined
    if (code === 'conflict') await noteFailure(call, entry, 'conflict')
    if (code === 'out-of-bounds') await noteFailure(call, entry, 'refused')
    throw error
  }
}

/** Like `audited`, for a new version: its failure states that no version became live, if so. */
export async function publishing<T>(
  call: Call,
  entry: AuditEntry,
  write: (audit: AuditWriter) => Promise<T>,
): Promise<T> {
  try {
    return await audited(call, entry, write)
  } catch (error) {
    if (!(error instanceof ControlError) || error.code !== 'unreachable') throw error
    if (error.mayBeApplied) throw error
    throw new ControlError(error.code, `${error.message}; nothing was published`, { cause: error })
  }
}

/** A store that is away must not hide the reason of the failure. */
export async function noteFailure(
  { fleet, terminal }: Call,
  entry: AuditEntry,
  result: AuditResult,
) {
  try {
    await fleet.changes.note({ ...entry, result })
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    terminal.stderr(`tidegate policy: the attempt is not in the audit: ${reason}\n`)
  }
}

/** A process that can write to the store of the fleet may do everything. */
export function entryOf({ by, why }: ReturnType<typeof changeOf>, rollbackOf?: number): AuditEntry {
  const actor = { kind: 'cli', id: by, name: by, role: 'admin' } as const
  return publicationEntry({ actor, why, rollbackOf })
}

export function changeOf({ why, by, parent }: Values) {
  if (why === undefined || why.trim() === '') throw new UsageError('--why TEXT is missing')
  return {
    why: plainOf(why, reason, '--why'),
    by: plainOf(by ?? `${userInfo().username}@${hostname()}`, author, '--by'),
    program: `tidegate ${programVersion()}`,
    ...(parent !== undefined && { parent: numberOf(parent, '--parent') }),
  }
}

function plainOf(text: string, allowed: typeof author, name: string): string {
  const { data, error } = allowed.safeParse(text)
  if (data !== undefined) return data
  throw new UsageError(`${name}: allowed is ${error?.issues[0]?.message}`)
}

export function numberOf(text: string | undefined, name: string): number {
  if (text !== undefined && /^\d{1,9}$/.test(text)) return Number(text)
  throw new UsageError(`${name}: allowed is a whole number, such as 42`)
}

export function durationOf(text: string, flag: string): number {
  const [, amount, unit] = /^(\d{1,6})(ms|s|m|h|d)$/.exec(text) ?? []
  const factor = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }[unit ?? '']
  if (factor === undefined) throw new UsageError(`${flag}: allowed is a time, such as 5s`)
  return Number(amount) * factor
}

export function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}
