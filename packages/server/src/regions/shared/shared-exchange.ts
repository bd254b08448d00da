/**
 * The part of a node in the mode `shared`: it reports the units that it admitted to the exchanger
 * of its region, receives messages of other regions for it, and is the exchanger itself if it is
 * elected. Without an exchanger, without the region's Redis and without a link, each region has
 * its share: nothing has to be switched.
 */

import { randomUUID } from 'node:crypto'
import type { Store } from 'tidegate'
import type { FrameHandler } from '../link/link-server.ts'
import type { RegionLimit } from '../region-limits.ts'
import type { Topology } from '../topology.ts'
import type { AdmittedUnits } from './admitted-units.ts'
import { ExchangeStore, type Lead, type RunScript } from './exchange-store.ts'
import { Exchanger, type Received } from './exchanger.ts'
import { encodeReport } from './shared-frames.ts'

/** The region's Redis, with a connection of its own. */
export interface ExchangeAccess {
  isConnected(): boolean
  /** The region's counters, without a guard. */
  readonly store: Store
  readonly run: RunScript
}

export interface SharedExchangeOptions {
  readonly topology: Topology
  readonly admitted: AdmittedUnits
  /** Called when a limit has the mode for the first time. */
  open(): ExchangeAccess
  /** Sends a frame to another region; it may be lost. */
  send(to: string, body: Uint8Array): void
}

export interface SharedState {
  /** True if this process is the exchanger of its region. */
  readonly isExchanger: boolean
  /** Keys that the exchanger counts. */
  readonly keys: number
  /** Regions whose units it does not wait for. */
  readonly silent: readonly string[]
  /** Rounds and reports that failed. */
  readonly failures: number
}

interface Opened {
  readonly redis: ExchangeAccess
  readonly exchange: ExchangeStore
}

const STEP_MS = 100

/** A third of the time after which another process may lead. */
const LEAD_EVERY_MS = 1_000

/** Messages that wait for the next round. Further ones are lost, and their senders repeat them. */
const RECEIVED_MAX = 1_024

/** Time for messages of one moment to be handled in one round. */
const SOON_MS = 5

export class SharedExchange {
  readonly #id = randomUUID()
  readonly #options: SharedExchangeOptions
  #limits: ReadonlyMap<string, RegionLimit>
  #access: Opened | undefined
  #exchanger: Exchanger | undefined
  #received: Received[] = []
  #timer: NodeJS.Timeout | undefined
  #soon: NodeJS.Timeout | undefined
  #step: Promise<void> | undefined
  #askedMs = -Infinity
  #failures = 0

  constructor(options: SharedExchangeOptions, limits: ReadonlyMap<string, RegionLimit>) {
    this.#options = options
    this.#limits = limits
  }

  start(): void {
    this.#timer = setInterval(() => this.#begin(), STEP_MS).unref()
  }

  /** Takes the limits of a new policy; the exchanger continues with their numbers. */
  use(limits: ReadonlyMap<string, RegionLimit>): void {
    this.#limits = limits
    this.#drop()
  }

  state(): SharedState | undefined {
    if (!this.#isUsed) return undefined
    const { keys = 0, silent = [] } = this.#exchanger ?? {}
    const isExchanger = this.#exchanger !== undefined
    return { isExchanger, keys, silent, failures: this.#failures }
  }

  /** A region is reached again: what it does not know is sent at once. */
  reached(region: string): void {
    if (this.#exchanger === undefined) return
    this.#exchanger.reached(region)
    this.#beginSoon()
  }

  /** Receives a message of another region. Its answer follows as a message when it is counted. */
  readonly handler: FrameHandler = async (from, body) => {
    if (!this.#isUsed) return nothing
    if (this.#exchanger === undefined) await this.#opened.exchange.post(from, body)
    else if (this.#received.length < RECEIVED_MAX) this.#receive({ from, body })
    return nothing
  }

  /** Reports the last units, and lets another process lead. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    clearTimeout(this.#soon)
    await this.#step
    if (this.#access === undefined) return
    const { exchange } = this.#access
    try {
      await this.#report()
      if (this.#exchanger !== undefined) await exchange.resign(this.#id)
    } catch {
      // Units that are not reported stay expensive, and the lead ends by itself.
    }
    this.#exchanger = undefined
  }

  get #isUsed(): boolean {
    for (const { mode } of this.#limits.values()) if (mode === 'shared') return true
    return false
  }

  get #opened(): Opened {
    if (this.#access !== undefined) return this.#access
    const { topology, open } = this.#options
    const redis = open()
    const exchange = new ExchangeStore(redis.run, topology.fingerprint.toString('hex'))
    this.#access = { redis, exchange }
    return this.#access
  }

  #receive(one: Received): void {
    // The bytes are those of a message that is gone after this turn.
    this.#received.push({ from: one.from, body: Uint8Array.from(one.body) })
    this.#beginSoon()
  }

  #beginSoon(): void {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined
      this.#begin()
    }, SOON_MS).unref()
  }

  #begin(): void {
    if (this.#step !== undefined || !this.#isUsed || !this.#opened.redis.isConnected()) return
    this.#step = this.#run().finally(() => {
      this.#step = undefined
    })
  }

  async #run(): Promise<void> {
    try {
      await this.#lead()
      const exchanger = this.#exchanger
      if (exchanger === undefined) return await this.#report()
      const received = this.#received
      this.#received = []
      const isLeading = await exchanger.run(received)
      if (!isLeading) this.#drop()
    } catch {
      this.#failures++
      this.#drop()
    }
  }

  /** Asks once a second to lead, or to go on. */
  async #lead(): Promise<void> {
    const nowMs = performance.now()
    if (nowMs - this.#askedMs < LEAD_EVERY_MS) return
    this.#askedMs = nowMs
    const { exchange } = this.#opened
    const before = this.#exchanger
    const lead = await exchange.lead(this.#id, before === undefined)
    const isSame = before?.lead.term === lead?.term
    if (isSame && before?.lead.incarnation === lead?.incarnation) return
    this.#exchanger = undefined
    if (lead !== undefined) this.#exchanger = await this.#newExchanger(lead)
  }

  async #newExchanger(lead: Lead): Promise<Exchanger> {
    const { topology, admitted, send } = this.#options
    const { redis, exchange } = this.#opened
    const limitNamed = (name: string) => {
      const limit = this.#limits.get(name)
      return limit?.mode === 'shared' ? limit : undefined
    }
    const takeAdmitted = () => admitted.take()
    const exchanger = new Exchanger({
      ...{ topology, store: redis.store, exchange, lead },
      ...{ limitNamed, takeAdmitted, send },
    })
    await exchanger.load()
    return exchanger
  }

  async #report(): Promise<void> {
    const admitted = this.#options.admitted.take()
    if (admitted.length > 0) await this.#opened.exchange.report(encodeReport(admitted))
  }

  /** The next one has another term, so that nothing of this one counts any more. */
  #drop(): void {
    this.#exchanger = undefined
    this.#received = []
    this.#askedMs = performance.now() - LEAD_EVERY_MS / 2
  }
}

const nothing = new Uint8Array(0)
