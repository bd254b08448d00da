/**
 * `tidegate policy`: publishes versions of a policy for a fleet, and shows which node has which.
 */

import { hostname, userInfo } from 'node:os'
import { parseArgs } from 'node:util'
import { SettingError } from '../../app/environment.ts'
import { type Fleet, hasAnswered, openFleet } from '../../app/fleet.ts'
import type { AuditEntry, AuditResult } from '../../control/audit/audit-record.ts'
import type { AuditWriter } from '../../control/audit-writer.ts'
import { ControlError } from '../../control/control-error.ts'
import type { NodeReport } from '../../control/nodes/node-report.ts'
import { plainText, reason } from '../../control/plain-text.ts'
import { publicationEntry } from '../../control/versions/audited-versions.ts'
import type { VersionRecord } from '../../control/versions/version-record.ts'
import { VersionConflict } from '../../control/versions/versions.ts'
import { type Command, exitCodes, type Terminal, UsageError } from '../terminal.ts'
import { version as programVersion } from '../version.ts'
import { conflictText, historyText, nodesText } from './policy-text.ts'

/** A user and a host. */
const author = plainText(200)

const options = {
  config: { type: 'string' },
  why: { type: 'string' },
  by: { type: 'string' },
  parent: { type: 'string' },
  wait: { type: 'string' },
  limit: { type: 'string' },
  json: { type: 'boolean', default: false },
} as const

type Values = ReturnType<typeof parse>['values']

interface Call {
  readonly fleet: Fleet
  readonly values: Values
  readonly names: readonly string[]
  readonly terminal: Terminal
}

const subcommands: Readonly<Record<string, (call: Call) => Promise<number>>> = {
  publish,
  rollback,
  history,
  diff,
  status,
}

export const policyCommand: Command = {
  name: 'policy',
  summary: 'Publish a policy for a fleet, roll it back, and see which node has which version',
  help: `Usage: tidegate policy publish FILE --why TEXT --config LOCAL [OPTIONS]
       tidegate policy rollback VERSION --why TEXT --config LOCAL [OPTIONS]
       tidegate policy history | status --config LOCAL
       tidegate policy diff VERSION [VERSION] --config LOCAL

LOCAL is the policy file of a node: its section control names the etcd of the fleet. FILE has the
sections that are the same for all nodes, such as limits. It is checked before it is published. A
version never changes; a rollback publishes the text of an earlier one again.

Without --config, FILE is a folder of Envoy's YAML files for tidegate rls, and the environment
variables TIDEGATE_ETCD_ENDPOINTS, TIDEGATE_ETCD_PREFIX and so on name the etcd.

  --config LOCAL   The policy file of a node
  --why TEXT       The reason, for the history and the audit
  --by NAME        The author. Default: the user and host of this process
  --parent N       Refuse if a version other than N is live, with a diff to it. 0: if any is
  --wait 5s        Wait until every node has applied or refused it, and list the nodes
  --limit N        The number of versions that history lists. Default: 20
  --json           Print JSON

Exit code 1: refused, a conflict, or a node that has not applied the version in time.
`,
  async run(args, terminal) {
    const [name = '', ...rest] = args
    const run = Object.hasOwn(subcommands, name) ? subcommands[name] : undefined
    if (run === undefined) {
      const allowed = Object.keys(subcommands).join(', ')
      throw new UsageError(`${JSON.stringify(name)} is not allowed; allowed: ${allowed}`)
    }
    const { values, positionals: names } = parse(rest)
    const fleet = await openFleet(values.config, terminal.environment)
    try {
      return await run({ fleet, values, names, terminal })
    } catch (error) {
      if (error instanceof VersionConflict) return printConflict(error, values, terminal)
      throw error instanceof ControlError ? new SettingError(error.message) : error
    } finally {
      await fleet.close()
    }
  },
}

function parse(args: readonly string[]) {
  return parseArgs({ args: [...args], options, allowPositionals: true })
}

async function publish(call: Call): Promise<number> {
  const { fleet, values, names } = call
  const [file] = names
  if (file === undefined || names.length > 1) throw new UsageError('name one FILE to publish')
  const change = changeOf(values)
  const text = await fleet.read(file)
  const problems = await fleet.check(text, file)
  const entry = entryOf(change)
  if (problems.length > 0) {
    await noteFailure(call, entry, 'refused')
    throw new SettingError(`${file} is refused:\n${problems.join('\n')}`)
  }
  const write = (audit: AuditWriter) => fleet.versions.publish(text, { ...change, audit })
  return published(call, await audited(call, entry, write))
}

async function rollback(call: Call): Promise<number> {
  const { fleet, values, names } = call
  const to = numberOf(names[0], 'VERSION')
  const change = changeOf(values)
  const write = (audit: AuditWriter) => fleet.versions.rollback(to, { ...change, audit })
  return published(call, await audited(call, entryOf(change, to), write))
}

/** Lost races and refused changes have a record as well. */
async function audited(
  call: Call,
  entry: AuditEntry,
  write: (audit: AuditWriter) => Promise<VersionRecord>,
): Promise<VersionRecord> {
  try {
    return await call.fleet.changes.run(entry, write)
  } catch (error) {
    const code = error instanceof ControlError ? error.code : undefined
    if (code === 'conflict') await noteFailure(call, entry, 'conflict')
    if (code === 'out-of-bounds') await noteFailure(call, entry, 'refused')
    throw error
  }
}

/** A store that is away must not hide the reason of the failure. */
async function noteFailure({ fleet, terminal }: Call, entry: AuditEntry, result: AuditResult) {
  try {
    await fleet.changes.note({ ...entry, result })
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    terminal.stderr(`tidegate policy: the attempt is not in the audit: ${reason}\n`)
  }
}

/** A process that can write to the store of the fleet may do everything. */
function entryOf({ by, why }: ReturnType<typeof changeOf>, rollbackOf?: number): AuditEntry {
  const actor = { kind: 'cli', id: by, name: by, role: 'admin' } as const
  return publicationEntry({ actor, why, rollbackOf })
}

async function published(call: Call, record: VersionRecord): Promise<number> {
  const { fleet, values, terminal } = call
  const { text: _, id: __, ...info } = record
  if (values.wait === undefined) {
    terminal.stdout(values.json ? json(info) : `published version ${info.version}\n`)
    return exitCodes.ok
  }
  const nodes = await fleet.waitFor(info.version, durationOf(values.wait))
  const missing = nodes.filter((node) => !isApplied(node, info.version))
  if (values.json) terminal.stdout(json({ ...info, nodes }))
  else {
    const count = `${nodes.length - missing.length} of ${nodes.length} nodes have applied it`
    terminal.stdout(`published version ${info.version}: ${count}\n${nodesText(nodes)}`)
  }
  return missing.length === 0 ? exitCodes.ok : exitCodes.failed
}

async function history({ fleet, values, terminal }: Call): Promise<number> {
  const limit = values.limit === undefined ? 20 : numberOf(values.limit, '--limit')
  const versions = await fleet.versions.history(limit)
  terminal.stdout(values.json ? json(versions) : historyText(versions))
  return exitCodes.ok
}

/** One version is compared with the live one. */
async function diff({ fleet, values, names, terminal }: Call): Promise<number> {
  const from = numberOf(names[0], 'VERSION')
  const live = names[1] === undefined ? (await fleet.versions.current())?.version : undefined
  const to = live ?? numberOf(names[1], 'VERSION')
  const text = await fleet.versions.diff(from, to)
  terminal.stdout(values.json ? json({ from, to, diff: text }) : text)
  return exitCodes.ok
}

async function status({ fleet, values, terminal }: Call): Promise<number> {
  const current = await fleet.versions.current()
  const canary = await fleet.versions.canary()
  const nodes = await fleet.nodes()
  const version = current?.version ?? 0
  if (values.json) terminal.stdout(json({ version, hash: current?.hash, canary, nodes }))
  else {
    const live = current ? `version ${version}, by ${current.by} at ${current.at}` : 'no version'
    terminal.stdout(`${fleet.store.description}: ${live}\n${nodesText(nodes)}`)
  }
  const isDone = nodes.every((node) => isApplied(node, version) || hasAnswered(node, version))
  return isDone ? exitCodes.ok : exitCodes.failed
}

function isApplied({ version, state }: NodeReport, wanted: number): boolean {
  return version >= wanted && state !== 'refused'
}

function printConflict(conflict: VersionConflict, values: Values, terminal: Terminal): number {
  const { text: _, ...current } = conflict.current
  if (values.json) terminal.stdout(json({ conflict: current, diff: conflict.diff }))
  else terminal.stderr(conflictText(conflict.message, conflict.diff))
  return exitCodes.failed
}

function changeOf({ why, by, parent }: Values) {
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

function numberOf(text: string | undefined, name: string): number {
  if (text !== undefined && /^\d{1,9}$/.test(text)) return Number(text)
  throw new UsageError(`${name}: allowed is a whole number, such as 42`)
}

function durationOf(text: string): number {
  const [, amount, unit] = /^(\d{1,6})(ms|s|m)$/.exec(text) ?? []
  const factor = { ms: 1, s: 1_000, m: 60_000 }[unit ?? '']
  if (factor === undefined) throw new UsageError('--wait: allowed is a time, such as 5s')
  return Number(amount) * factor
}

function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}
