/**
 * The parts of the console that come from the control store: nodes, last changes and the switch.
 * They are read while a page is open: every few seconds, and at once after an event of this node.
 */

import { isDeepStrictEqual } from 'node:util'
import type {
  CanaryView,
  ChangeView,
  NodeView,
  SlowView,
  SwitchView,
} from '../../admin/console/console-types.ts'
import type { AuditRecord } from '../../control/audit/audit-record.ts'
import { latestRecords } from '../../control/audit/read-audit.ts'
import type { KeyValueStore } from '../../control/key-value.ts'
import { SWITCH_KEY, switchOf } from '../../control/live/entries.ts'
import { readReports } from '../../control/nodes/node-report.ts'
import { readTraffic } from '../../control/nodes/node-traffic.ts'
import {
  CANARY_KEY,
  type CanaryPointer,
  CURRENT_KEY,
  isCanaryNode,
  readCanary,
  readPointer,
} from '../../control/versions/version-record.ts'

/** Changes that are shown as the last ones. */
const CHANGES_MAX = 20

/** Records that only tell about reads are left out; so many are looked through at most. */
const RECORDS_MAX = 200

/** `live/canary` and `live/current` are the only entries with it. */
const POINTERS_PREFIX = 'live/c'
const POINTERS_MAX = 10

/** Other nodes change the same store, such as tokens, without an event here. */
const POLL_MS = 1_000

/** At most 4 readings a second, whatever operators do. */
const GAP_MS = 250

const reads = new Set(['top.read', 'counter.read', 'client.read', 'explain.read', 'login'])

const on: SwitchView = { limits: 'on', blocks: 'on', until: null, by: null, why: null }

const nothing: SlowView = {
  nodes: [],
  changes: [],
  switch: on,
  published: null,
  canary: null,
  controlProblem: null,
}

export interface SlowPartsOptions {
  /** Undefined until the store is opened. */
  control(): KeyValueStore | undefined
  /** This node, if it does not report to a store. */
  own(): NodeView
  onChange(): void
}

export class SlowParts {
  /** The name under which this node reports. */
  ownId: string | undefined
  readonly #options: SlowPartsOptions
  #view = nothing
  #readAtMs = 0
  #reading: Promise<void> | undefined
  #isAgain = false
  #timer: NodeJS.Timeout | undefined

  constructor(options: SlowPartsOptions) {
    this.#options = options
  }

  get view(): SlowView {
    const { nodes } = this.#view
    return { ...this.#view, nodes: nodes.length === 0 ? [this.#options.own()] : nodes }
  }

  /** Reads from time to time until `stop` is called. */
  start(): void {
    this.#timer ??= setInterval(() => this.refresh(), POLL_MS).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Reads soon; calls meanwhile count as one. */
  refresh(): void {
    if (this.#reading !== undefined) {
      this.#isAgain = true
      return
    }
    const waitMs = Math.max(0, this.#readAtMs + GAP_MS - Date.now())
    this.#reading = new Promise((resolve) => {
      setTimeout(() => void this.#read().finally(resolve), waitMs).unref()
    })
    void this.#reading.then(() => {
      this.#reading = undefined
      if (!this.#isAgain) return
      this.#isAgain = false
      this.refresh()
    })
  }

  /** Resolves with a view that is at most a second old; without an answer, with the last one. */
  async latest(): Promise<SlowView> {
    if (Date.now() - this.#readAtMs > POLL_MS) await this.#read()
    return this.view
  }

  async #read(): Promise<void> {
    const control = this.#options.control()
    this.#readAtMs = Date.now()
    const before = this.#view
    this.#view = control === undefined ? nothing : await readView(control, this.ownId, before)
    if (!isDeepStrictEqual(before, this.#view)) this.#options.onChange()
  }
}

async function readView(
  control: KeyValueStore,
  ownId: string | undefined,
  before: SlowView,
): Promise<SlowView> {
  try {
    const [nodes, changes, { switched, published, canary }] = await Promise.all([
      readNodeViews(control, ownId),
      readChanges(control),
      readPointers(control),
    ])
    const nowMs = Date.now()
    const views = nodes.map((one) => {
      const place = { node: one.node, region: one.region ?? undefined }
      return { ...one, isCanary: canary !== undefined && isCanaryNode(canary, place, nowMs) }
    })
    const canaryView = canary === undefined ? null : canaryOf(canary)
    return {
      ...{ nodes: views, changes, published, canary: canaryView },
      switch: switchView(switched),
      controlProblem: null,
    }
  } catch (error) {
    const controlProblem = error instanceof Error ? error.message : String(error)
    return { ...before, controlProblem }
  }
}

async function readNodeViews(
  control: KeyValueStore,
  ownId: string | undefined,
): Promise<readonly Omit<NodeView, 'isCanary'>[]> {
  const [reports, traffic] = await Promise.all([readReports(control), readTraffic(control)])
  return Array.from(reports, ([id, { hash: _, ...report }]) => ({
    ...report,
    region: report.region ?? null,
    isOwn: id === ownId,
    traffic: traffic.get(id) ?? null,
  }))
}

/** The switch, and the versions that are published for all nodes and for a part of them. */
async function readPointers(control: KeyValueStore) {
  const [{ entries }, found] = await Promise.all([
    control.range(POINTERS_PREFIX, { entriesMax: POINTERS_MAX }),
    control.range(SWITCH_KEY),
  ])
  const textOf = (key: string) => entries.find((entry) => entry.key === key)?.value
  const [current, canaryText] = [textOf(CURRENT_KEY), textOf(CANARY_KEY)]
  const canary = canaryText === undefined ? undefined : readCanary(canaryText, CANARY_KEY)
  const isOver = canary !== undefined && Date.parse(canary.until) <= Date.now()
  return {
    switched: found.entries.find(({ key }) => key === SWITCH_KEY)?.value,
    published: current === undefined ? null : readPointer(current, CURRENT_KEY).version,
    canary: isOver ? undefined : canary,
  }
}

function canaryOf({ version, where, until }: CanaryPointer): CanaryView {
  const { region, nodes, share = 0 } = where
  if (region !== undefined) return { version, until, where: `the region ${region}` }
  if (nodes !== undefined) return { version, until, where: `the nodes ${nodes.join(', ')}` }
  return { version, until, where: `${Math.round(share * 1_000) / 10} % of the nodes` }
}

async function readChanges(control: KeyValueStore): Promise<readonly ChangeView[]> {
  const changes: ChangeView[] = []
  let count = 0
  for await (const record of latestRecords(control)) {
    count += 1
    if (!reads.has(record.action) && record.result === 'done') changes.push(changeOf(record))
    if (changes.length >= CHANGES_MAX || count >= RECORDS_MAX) break
  }
  return changes
}

function changeOf({
  id,
  at,
  actor,
  action,
  target,
  reason,
  result,
  ...rest
}: AuditRecord): ChangeView {
  const { type, limit, id: targetId } = target
  const version = rest.versionTo === undefined ? undefined : `version ${rest.versionTo}`
  return {
    ...{ id, at, action, result },
    by: actor.name,
    target: [type, limit ?? targetId, version].filter((part) => part !== undefined).join(' '),
    why: reason ?? null,
  }
}

function switchView(text: string | undefined): SwitchView {
  const stored = switchOf(text)
  if (stored === undefined) return on
  const { limits, blocks, expires, by, why } = stored
  if (expires !== null && Date.parse(expires) <= Date.now()) return on
  return { limits, blocks, until: expires, by, why }
}
