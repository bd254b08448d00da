/** `tidegate policy canary | promote | abort`: a version for a part of the nodes, for a time. */

import { SettingError } from '../../app/environment.ts'
import {
  type CanaryPlace,
  type CanaryPointer,
  isCanaryNode,
} from '../../control/versions/version-record.ts'
import { exitCodes, UsageError } from '../terminal.ts'
import {
  audited,
  type Call,
  changeOf,
  durationOf,
  entryOf,
  json,
  noteFailure,
  publishing,
  type Values,
} from './policy-change.ts'
import { canaryText, nodesText } from './policy-text.ts'

/** A name of a node or a region. */
const NAME = /^[\w.-]{1,64}$/

/** As many as fit into a small entry. */
const NODES_MAX = 100

/** Publishes FILE for a part of the nodes. */
export async function canary(call: Call): Promise<number> {
  const { fleet, values, names } = call
  const [file] = names
  if (file === undefined || names.length > 1) throw new UsageError('name one FILE for the canary')
  const where = placeOf(values)
  const forMs = forOf(values)
  const change = changeOf(values)
  const text = await fleet.read(file)
  const entry = { ...entryOf(change), action: 'policy.canary', after: { where } }
  const problems = await fleet.check(text, file)
  if (problems.length > 0) {
    await noteFailure(call, entry, 'refused')
    throw new SettingError(`${file} is refused:\n${problems.join('\n')}`)
  }
  const { versions } = fleet
  const stage = { ...entry, action: 'policy.stage' }
  const { version } = await audited(call, stage, (audit) =>
    versions.stage(text, { ...change, audit }),
  )
  const until = new Date(Date.now() + forMs)
  const after = { where, version, until: until.toISOString() }
  await audited(call, { ...entry, after }, (audit) =>
    versions.setCanary({ version, where, until }, { ...change, audit }),
  )
  const pointer = await versions.canary()
  if (pointer?.version !== version) throw new SettingError('another change has ended the canary')
  return begun(call, pointer)
}

/** Makes the version of the canary live on all nodes. */
export async function promote(call: Call): Promise<number> {
  const { fleet, values, terminal } = call
  const change = changeOf(values)
  const entry = { ...entryOf(change), action: 'policy.promote' }
  const record = await publishing(call, entry, (audit) =>
    fleet.versions.promote({ ...change, audit }),
  )
  const { text: _, id: __, ...info } = record
  terminal.stdout(values.json ? json(info) : `version ${info.version} is live on all nodes\n`)
  return exitCodes.ok
}

/** Ends the canary: its nodes return to the live version. */
export async function abort(call: Call): Promise<number> {
  const { fleet, values, terminal } = call
  const change = changeOf(values)
  const ended = await fleet.versions.canary()
  if (ended === undefined) throw new SettingError('there is no canary')
  const { version } = ended
  const entry = { ...entryOf(change), action: 'policy.abort', before: { version } }
  await audited(call, entry, (audit) => fleet.versions.setCanary(undefined, { ...change, audit }))
  const line = `the canary of version ${version} has ended\n`
  terminal.stdout(values.json ? json({ ended: version }) : line)
  return exitCodes.ok
}

async function begun({ fleet, values, terminal }: Call, pointer: CanaryPointer): Promise<number> {
  const isChosen = (place: { readonly node: string; readonly region?: string | undefined }) =>
    isCanaryNode(pointer, place, Date.now())
  const { wait } = values
  const waited =
    wait === undefined
      ? undefined
      : await fleet.waitFor(pointer.version, durationOf(wait, '--wait'), isChosen)
  const nodes = (waited ?? (await fleet.nodes())).filter(isChosen)
  if (values.json) terminal.stdout(json({ ...pointer, nodes }))
  else terminal.stdout(`${canaryText(pointer)}${nodesText(nodes)}`)
  const isMissing = ({ version, state }: (typeof nodes)[number]) =>
    version !== pointer.version || state === 'refused'
  return waited !== undefined && nodes.some(isMissing) ? exitCodes.failed : exitCodes.ok
}

function placeOf({ region, nodes, share }: Values): CanaryPlace {
  const given = [region, nodes, share].filter((value) => value !== undefined)
  if (given.length !== 1) {
    throw new UsageError('name the nodes by one of --region, --nodes and --share')
  }
  if (region !== undefined) return { region: nameOf(region, '--region') }
  if (nodes !== undefined) {
    const list = nodes.split(',').map((name) => nameOf(name.trim(), '--nodes'))
    if (list.length <= NODES_MAX) return { nodes: list }
    throw new UsageError(`--nodes: allowed are at most ${NODES_MAX} names`)
  }
  const percent = /^\d{1,3}(\.\d+)?%?$/.test(share ?? '') ? Number.parseFloat(share ?? '') : 0
  if (percent > 0 && percent <= 100) return { share: percent / 100 }
  throw new UsageError('--share: allowed is a percentage above 0 and up to 100, such as 10')
}

function nameOf(text: string, flag: string): string {
  if (NAME.test(text)) return text
  throw new UsageError(`${flag}: allowed are names of letters, digits, dots and dashes`)
}

/** Without an end, a forgotten canary would split the fleet. */
function forOf({ for: text }: Values): number {
  if (text === undefined) throw new UsageError('--for TIME is missing, such as 1h')
  return durationOf(text, '--for')
}
