/**
 * `tidegate policy`: publishes versions of a policy for a fleet, and shows which node has which.
 */

import { SettingError } from '../../app/environment.ts'
import { hasAnswered, openFleet } from '../../app/fleet.ts'
import type { AuditWriter } from '../../control/audit-writer.ts'
import { ControlError } from '../../control/control-error.ts'
import type { NodeReport } from '../../control/nodes/node-report.ts'
import type { VersionRecord } from '../../control/versions/version-record.ts'
import { VersionConflict } from '../../control/versions/versions.ts'
import { sourceChoice, sourceHelp } from '../source-flags.ts'
import { type Command, exitCodes, type Terminal, UsageError } from '../terminal.ts'
import { abort, canary, promote } from './policy-canary.ts'
import {
  type Call,
  changeOf,
  durationOf,
  entryOf,
  json,
  noteFailure,
  numberOf,
  parsePolicyArgs,
  publishing,
  type Values,
} from './policy-change.ts'
import { canaryText, conflictText, historyText, nodesText } from './policy-text.ts'

const subcommands: Readonly<Record<string, (call: Call) => Promise<number>>> = {
  publish,
  rollback,
  canary,
  promote,
  abort,
  history,
  diff,
  status,
}

export const policyCommand: Command = {
  name: 'policy',
  summary: 'Publish a policy for a fleet, roll it back, and see which node has which version',
  help: `Usage: tidegate policy publish FILE --why TEXT --config LOCAL [OPTIONS]
       tidegate policy rollback VERSION --why TEXT --config LOCAL [OPTIONS]
       tidegate policy canary FILE --region R | --nodes A,B | --share 10 --for 1h --why TEXT ...
       tidegate policy promote | abort --why TEXT --config LOCAL
       tidegate policy history | status --config LOCAL
       tidegate policy diff VERSION [VERSION] --config LOCAL

LOCAL is the policy file of a node: its section control names the etcd of the fleet. FILE has the
sections that are the same for all nodes, such as limits. It is checked before it is published. A
version never changes; a rollback publishes the text of an earlier one again.

A canary is a version for a part of the nodes, for a time. promote makes it live on all nodes, abort
ends it, and so does the next publication.

Without --config, FILE is a folder of Envoy's YAML files for tidegate rls, and the environment
variables TIDEGATE_ETCD_ENDPOINTS, TIDEGATE_ETCD_PREFIX and so on name the etcd.

  --config LOCAL   The policy file of a node
  --why TEXT       The reason, for the history and the audit
  --by NAME        The author. Default: the user and host of this process
  --parent N       Refuse if a version other than N is live, with a diff to it. 0: if any is
  --wait 5s        Wait until every node has applied or refused it, and list the nodes
  --region NAME    A canary for the nodes of this region
  --nodes A,B      A canary for the nodes with these names
  --share 10       A canary for this percentage of the nodes, by a hash of their names
  --for 1h         The time after which a canary ends by itself
  --limit N        The number of versions that history lists. Default: 20
  --json           Print JSON
${sourceHelp}
Exit code 1: refused, a conflict, or a node that has not applied the version in time.
`,
  async run(args, terminal) {
    const [name = '', ...rest] = args
    const run = Object.hasOwn(subcommands, name) ? subcommands[name] : undefined
    if (run === undefined) {
      const allowed = Object.keys(subcommands).join(', ')
      throw new UsageError(`${JSON.stringify(name)} is not allowed; allowed: ${allowed}`)
    }
    const { values, positionals: names } = parsePolicyArgs(rest)
    const fleet = await openFleet(values.config, terminal.environment, sourceChoice(values))
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
  return published(call, await publishing(call, entry, write))
}

async function rollback(call: Call): Promise<number> {
  const { fleet, values, names } = call
  const to = numberOf(names[0], 'VERSION')
  const change = changeOf(values)
  const write = (audit: AuditWriter) => fleet.versions.rollback(to, { ...change, audit })
  return published(call, await publishing(call, entryOf(change, to), write))
}

/** Prints a version that is live, and waits for the nodes if `--wait` is set. */
async function published(call: Call, record: VersionRecord): Promise<number> {
  const { fleet, values, terminal } = call
  const { text: _, id: __, ...info } = record
  if (values.wait === undefined) {
    terminal.stdout(values.json ? json(info) : `published version ${info.version}\n`)
    return exitCodes.ok
  }
  const nodes = await fleet.waitFor(info.version, durationOf(values.wait, '--wait'))
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
    const part = canary === undefined ? '' : canaryText(canary)
    terminal.stdout(`${fleet.store.description}: ${live}\n${part}${nodesText(nodes)}`)
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
