/**
 * The exchanger of a region while it leads: it runs the protocol of the mode `shared` for all
 * limits, changes the region's counters, and sends rows to the other regions.
 *
 * The order keeps the limit, whatever fails in between. Parts that other regions' units cost are
 * charged first; then the rows are kept, which a replaced exchanger cannot; only then are parts
 * given back and messages sent. A step that is repeated charges twice, and gives back never twice.
 * After a failure the exchanger is dropped, and the next one continues with the rows that are kept.
 */

import type { Adjustment, Limit, Store } from 'tidegate'
import {
  lastsMs,
  type RegionTimes,
  type SharedAdjustment,
  type SharedEffects,
  type SharedMessage,
  SharedRegion,
  type SharedRow,
} from 'tidegate/regions'
import { MESSAGE_BYTES_MAX } from '../link/frames.ts'
import type { RegionLimit } from '../region-limits.ts'
import type { Topology } from '../topology.ts'
import type { AdmittedGroup } from './admitted-units.ts'
import { adjustAll } from './counter-adjustments.ts'
import {
  type ExchangeStore,
  type Lead,
  readRowsText,
  rowsText,
  type SavedRow,
} from './exchange-store.ts'
import { PeerOffsets } from './peer-offsets.ts'
import {
  decodeFrame,
  decodeReport,
  encodeFrame,
  groupBytes,
  groupId,
  readGroup,
} from './shared-frames.ts'

export interface ExchangerOptions {
  readonly topology: Topology
  /** The region's counters, without a guard: a call that fails is not decided otherwise. */
  readonly store: Store
  readonly exchange: ExchangeStore
  readonly lead: Lead
  limitNamed(name: string): RegionLimit | undefined
  /** Units that this process admitted since the last call. */
  takeAdmitted(): readonly AdmittedGroup[]
  /** Sends a frame to another region; it may be lost. */
  send(to: string, body: Uint8Array): void
}

/** A message of another region that this process received. */
export interface Received {
  readonly from: string
  readonly body: Uint8Array
}

interface Group {
  readonly id: string
  readonly name: string
  readonly limit: Limit
  readonly bytes: Buffer
  readonly region: SharedRegion
}

type Change = SharedAdjustment & { readonly group: Group }

const EXCHANGE_MS = 200

/** Regions send something once a second. */
const SILENT_MS = 2_000

/** Limits with their tiers and overrides. Those beyond are not exchanged: regions have shares. */
const GROUPS_MAX = 256

/** About 1 kB each. Keys beyond are not exchanged: regions have their shares. */
const KEYS_MAX = 65_536

/** Nothing is given back in this time before the end of a window, because it could arrive later. */
const BOUNDARY_MS = 500

/** The bytes of a row, and of a region in it, when counts are large. */
const ROW_BYTES = 16
const ENTRY_BYTES = 24

/** Time for the rows of a window to be of use after it. */
const KEEP_MS = 20_000

export class Exchanger {
  readonly lead: Lead
  readonly #options: ExchangerOptions
  readonly #groups = new Map<string, Group>()
  readonly #offsets: PeerOffsets
  readonly #rowsMax: number
  readonly #heardMs = new Map<string, number>()
  #tickedMs = -Infinity
  #keys = 0

  constructor(options: ExchangerOptions) {
    this.lead = options.lead
    this.#options = options
    const { topology } = options
    this.#offsets = new PeerOffsets()
    const rowBytes = ROW_BYTES + ENTRY_BYTES * topology.names.length
    this.#rowsMax = Math.floor(MESSAGE_BYTES_MAX / 2 / rowBytes)
  }

  /** Keys that are exchanged or counted now. */
  get keys(): number {
    return this.#keys
  }

  /** Regions that are silent, or whose clock differs too much, for any limit. */
  get silent(): readonly string[] {
    const silent = new Set<string>()
    for (const { region } of this.#groups.values()) {
      const { mask } = region
      for (const name of this.#options.topology.names) if (!mask.includes(name)) silent.add(name)
    }
    return [...silent]
  }

  /** Another region is reached again: messages that were under way are lost. */
  reached(peer: string): void {
    for (const { region } of this.#groups.values()) region.reached(peer)
    this.#tickedMs = -Infinity
  }

  /** Continues with the rows of the exchangers before. */
  async load(): Promise<void> {
    const saved = new Map<string, [key: string, rows: readonly SharedRow[]][]>()
    const groups = new Map<string, Buffer>()
    let keys = 0
    for await (const { id, text } of this.#options.exchange.load()) {
      if (keys++ >= KEYS_MAX) break
      const [group = '', key = ''] = id.split(':')
      const read = readRowsText(text)
      groups.set(group, read.group)
      const ofGroup = saved.get(group) ?? []
      ofGroup.push([key, read.rows])
      saved.set(group, ofGroup)
    }
    const times = { steadyMs: performance.now(), storeMs: 0 }
    for (const [id, bytes] of groups) {
      const { name, limit } = readGroup(bytes)
      this.#groupOf(name, limit, times, saved.get(id))
    }
  }

  /** One round: returns false if another exchanger leads. Rejects if the store fails. */
  async run(received: readonly Received[]): Promise<boolean> {
    const { exchange } = this.#options
    const taken = await exchange.take(this.lead)
    if (taken === undefined) return false
    const times = { steadyMs: performance.now(), storeMs: taken.storeMs }
    this.#keys = sum([...this.#groups.values()].map(({ region }) => region.keys.size))
    this.#admit(this.#options.takeAdmitted(), times)
    for (const { storeMs, body } of taken.reports) {
      this.#admit(decodeReport(Buffer.from(body, 'base64')), { ...times, storeMs })
    }
    const effects: (SharedEffects & { group: Group })[] = []
    const receive = (from: string, body: Uint8Array, storeMs: number) => {
      const effect = this.#receive(from, body, storeMs, times)
      if (effect !== undefined) effects.push(effect)
    }
    for (const { storeMs, body } of taken.messages) {
      const space = body.indexOf(' ')
      receive(body.slice(0, space), Buffer.from(body.slice(space + 1), 'base64'), storeMs)
    }
    for (const { from, body } of received) receive(from, body, taken.storeMs)
    effects.push(...this.#tick(times))
    return this.#apply(effects, times)
  }

  #admit(groups: readonly AdmittedGroup[], times: RegionTimes): void {
    for (const { name, limit, units } of groups) {
      const group = this.#groupOf(name, limit, times)
      if (group === undefined) continue
      for (const [key, count] of units) {
        if (this.#keys >= KEYS_MAX && !group.region.keys.has(key)) continue
        const before = group.region.keys.size
        group.region.admitted(key, count, times)
        this.#keys += group.region.keys.size - before
      }
    }
  }

  #receive(from: string, body: Uint8Array, storeMs: number, times: RegionTimes) {
    const frame = decodedOrNothing(body)
    if (frame === undefined) return undefined
    const group = this.#groupOf(frame.name, frame.limit, times)
    if (group === undefined) return undefined
    this.#offsets.add(from, frame.storeMs - storeMs)
    // Its answers were lost meanwhile, so that exchanges are repeated in this round.
    if (times.steadyMs - (this.#heardMs.get(from) ?? 0) > SILENT_MS) this.#tickedMs = -Infinity
    this.#heardMs.set(from, times.steadyMs)
    return { group, ...group.region.receive(from, frame.message, times) }
  }

  #tick(times: RegionTimes): readonly (SharedEffects & { group: Group })[] {
    if (times.steadyMs - this.#tickedMs < EXCHANGE_MS) return []
    this.#tickedMs = times.steadyMs
    const effects: (SharedEffects & { group: Group })[] = []
    for (const group of this.#groups.values()) {
      for (const [peer, offsetMs] of this.#offsets) group.region.setOffset(peer, offsetMs)
      effects.push({ group, ...group.region.tick(times) })
      // Without keys there is nothing to exchange, and a message makes the group again.
      if (group.region.keys.size === 0) this.#groups.delete(group.id)
    }
    return effects
  }

  async #apply(
    effects: readonly (SharedEffects & { group: Group })[],
    times: RegionTimes,
  ): Promise<boolean> {
    const changes = effects.flatMap(({ group, adjust }) =>
      adjust.map((one): Change => ({ ...one, group })),
    )
    const { store } = this.#options
    await adjustAll(store, changes.filter(({ units }) => units > 0).map(adjustmentOf))
    // A message acknowledges units of its receiver, so it must have all units that were admitted
    // here without them. Their decisions have arrived at the end of this turn.
    await new Promise((resolve) => setImmediate(resolve))
    this.#admit(this.#options.takeAdmitted(), times)
    if (!(await this.#save())) return false
    this.#send(effects, times)
    const nowMs = times.storeMs + performance.now() - times.steadyMs
    const back = changes.filter(
      ({ units, cellEndMs = Infinity }) => units < 0 && cellEndMs - nowMs > BOUNDARY_MS / 2,
    )
    // Parts whose return is lost stay charged.
    await adjustAll(store, back.map(adjustmentOf)).catch(() => undefined)
    return true
  }

  async #save(): Promise<boolean> {
    for (const { id, bytes, limit, region } of this.#groups.values()) {
      const rows = region.takeChanged().map(([key, ofKey]): SavedRow => {
        return { id: `${id}:${key}`, text: rowsText(bytes, ofKey) }
      })
      if (rows.length === 0) continue
      const lifeMs = 2 * lastsMs(limit) + KEEP_MS
      if (!(await this.#options.exchange.save(this.lead, rows, lifeMs))) return false
    }
    return true
  }

  #send(effects: readonly (SharedEffects & { group: Group })[], times: RegionTimes): void {
    for (const { group, sends } of effects) {
      for (const { to, message } of sends) {
        this.#sendRows(group, to, group.region.latest(to, message), times)
      }
    }
  }

  /** In as many messages as their bytes need: rows of many incarnations are long. */
  #sendRows(group: Group, to: string, message: SharedMessage, times: RegionTimes): void {
    const { name, limit } = group
    const storeMs = Math.round(times.storeMs + performance.now() - times.steadyMs)
    const body = encodeFrame({ name, limit, storeMs, message })
    const { rows } = message
    if (body.length <= MESSAGE_BYTES_MAX / 2 || rows.length <= 1) {
      this.#options.send(to, body)
      return
    }
    const half = Math.ceil(rows.length / 2)
    this.#sendRows(group, to, { ...message, rows: rows.slice(0, half) }, times)
    this.#sendRows(group, to, { ...message, rows: rows.slice(half) }, times)
  }

  #groupOf(
    name: string,
    limit: Limit,
    times: RegionTimes,
    rows: readonly [string, readonly SharedRow[]][] = [],
  ): Group | undefined {
    const id = groupId(name, limit)
    const known = this.#groups.get(id)
    if (known !== undefined) return known
    const { topology, limitNamed, lead } = this.#options
    const policy = limitNamed(name)
    if (policy === undefined || this.#groups.size >= GROUPS_MAX) return undefined
    const { self, shares } = topology
    const region = new SharedRegion(
      {
        regions: [...shares].map(([region, parts]) => ({ name: region, parts })),
        ...{ self, limit, incarnation: lead.incarnation, blind: policy.blind },
        ...{ exchangeMs: EXCHANGE_MS, boundaryMs: BOUNDARY_MS },
        ...{ keysMax: KEYS_MAX, rowsMax: this.#rowsMax },
      },
      times,
      { maskVersion: 1, rows },
    )
    region.lead(lead.term)
    const group = { id, name, limit, bytes: groupBytes(name, limit), region }
    this.#groups.set(id, group)
    return group
  }
}

/** A counter is full long before: a wrong number of another region cannot make it overflow. */
const CAPACITIES_MAX = 32

function adjustmentOf({ group, key, units }: Change): Adjustment {
  const { counterLimit: limit } = group.region
  const capacity = limit.algorithm === 'tokenBucket' ? limit.burst : limit.limit
  return { name: group.name, key, limit, units: Math.min(units, CAPACITIES_MAX * capacity) }
}

/** A message that cannot be read is lost. */
function decodedOrNothing(body: Uint8Array) {
  try {
    return decodeFrame(body)
  } catch {
    return undefined
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((one, other) => one + other, 0)
}
