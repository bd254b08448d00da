/**
 * The mode `partition` of one limit in one region: which share of the limit the region has. Shares
 * are parts of 10,000; those of all regions together are at most 10,000 at every moment, also
 * while messages are lost and windows overlap.
 *
 * It has no clock and does no I/O. The caller applies `shareAt` to its counters, so that every node
 * uses a smaller share within `ticketMs`.
 */

import type { Limit } from '../../algorithms/limit.ts'
import { type Bases, baseAt, confirmEpoch, type Epochs, firstEpoch, nextEpoch } from './epochs.ts'
import { SKEW_MS_MAX } from './hlc.ts'
import {
  asked,
  type Borrowed,
  beginLoan,
  granted,
  type Lent,
  type LoanTimes,
  lentAt,
  type PartitionTimes,
  partitionTimes,
  received,
} from './loans.ts'
import {
  LOANS_MAX,
  type PartitionAnswer,
  type PartitionAsk,
  type PartitionMessage,
  type PartitionStatus,
} from './partition-messages.ts'
import { lastsMs, PARTS_MAX, sumOf } from './shares.ts'

export interface PartitionSettings {
  readonly self: string
  readonly limit: Limit
  /** A stamp as text. A store that has lost its data has another one. */
  readonly incarnation: string
  readonly epoch: number
  /** Parts of 10,000 for each region. */
  readonly bases: Bases
  /** The bases of the epoch before, if the change may not be complete. */
  readonly basesBefore?: Bases
  /** True if the store was empty: loans may exist that it does not know. */
  readonly isLearning?: boolean
  /** The first number of its loans, above all of earlier incarnations. */
  readonly firstId: number
  readonly times?: Partial<PartitionTimes>
}

export interface PartitionSend {
  readonly to: string
  readonly message: PartitionMessage
}

/** What is known of a peer. */
interface Peer {
  incarnation: string
  demand: number | undefined
  share: number
  /** True if the peer has reported its loans since this region has lost its data. */
  hasReported: boolean
}

const STAMP_UNKNOWN = '0'.repeat(16)

export class PartitionRegion {
  readonly #settings: PartitionSettings
  readonly #times: PartitionTimes
  readonly #loanTimes: LoanTimes
  #epochs: Epochs
  #lent: readonly Lent[] = []
  #borrowed: readonly Borrowed[] = []
  readonly #peers = new Map<string, Peer>()
  #learnsUntilMs: number
  #nextId: number
  #sequence = 0
  #demand = 0

  constructor(settings: PartitionSettings, nowMs: number) {
    this.#settings = settings
    this.#times = partitionTimes(settings.times)
    const drainMs = this.#times.ticketMs + lastsMs(settings.limit) + SKEW_MS_MAX
    this.#loanTimes = { drainMs, ttlMs: this.#times.ttlMs }
    this.#epochs = firstEpoch(settings.epoch, settings.bases, settings.basesBefore)
    this.#nextId = settings.firstId
    this.#learnsUntilMs = settings.isLearning ? nowMs + this.#times.ttlMs + 2 * drainMs : -Infinity
  }

  /** Parts that the region may use now. */
  shareAt(nowMs: number): number {
    const base = this.#baseAt(nowMs)
    if (this.#isLearning(nowMs)) return Math.min(base, this.#times.minParts)
    const borrowed = this.#borrowed.filter(
      ({ state, untilMs }) => state === 'borrowed' && nowMs < untilMs,
    )
    return Math.max(0, base - this.#lentParts(nowMs)) + sumOf(borrowed.map(({ parts }) => parts))
  }

  /** Units asked for per minute since the last report; denied ones count up to the admitted. */
  report(admitted: number, denied: number, elapsedMs: number): void {
    const perMinute = ((admitted + Math.min(denied, admitted)) * 60_000) / elapsedMs
    const weight = Math.min(1, elapsedMs / this.#times.smoothMs)
    this.#demand += (perMinute - this.#demand) * weight
  }

  /** Begins an epoch with other regions or bases. */
  changeEpoch(epoch: number, bases: Bases, nowMs: number): void {
    if (epoch <= this.#epochs.epoch) return
    this.#epochs = nextEpoch(this.#epochs, epoch, bases, nowMs, this.#loanTimes.drainMs)
  }

  /** An operator confirms for a region that is lost for good. */
  forget(region: string, nowMs: number): void {
    this.#epochs = confirmEpoch(this.#epochs, region, this.#epochs.epoch, nowMs)
  }

  /** Asks for parts, or gives loans back, if the share does not fit the demand. */
  rebalance(nowMs: number): PartitionSend[] {
    if (this.#isLearning(nowMs)) return []
    const share = this.shareAt(nowMs)
    const wanted = this.#targetOf(this.#settings.self) - share
    const least = Math.max(this.#times.changePartsMin, share / 10)
    if (wanted < -least) this.#giveBack(-wanted, nowMs)
    if (wanted <= least || this.#borrowed.length >= LOANS_MAX) return []
    const lender = this.#richestPeer()
    if (lender === undefined) return []
    const parts = Math.min(Math.floor(wanted), this.#times.stepParts)
    const untilMs = nowMs + 2 * this.#loanTimes.drainMs + this.#times.ttlMs
    const id = this.#nextId++
    const loan: Borrowed = { lender, id, parts, state: 'asked', untilMs, sent: [] }
    this.#borrowed = [...this.#borrowed, loan]
    return [this.#ask(loan, nowMs)]
  }

  /** Repeats requests, ends loans, and reports to the peers. */
  tick(nowMs: number): PartitionSend[] {
    this.#settle(nowMs)
    const { self } = this.#settings
    const over = this.#baseAt(nowMs) - this.#lentParts(nowMs)
    // Confirmed when loans fit the smaller base.
    if (over >= 0) {
      this.#epochs = confirmEpoch(this.#epochs, self, this.#epochs.epoch, nowMs)
    }
    const asks = this.#borrowed
      .filter((loan) => this.#isAskDue(loan, nowMs))
      .map((loan) => this.#ask(loan, nowMs))
    const others = this.#regions().filter((region) => region !== self)
    return [...asks, ...others.map((to) => ({ to, message: this.#status(to, nowMs) }))]
  }

  receive(from: string, message: PartitionMessage, nowMs: number): PartitionSend[] {
    this.#settle(nowMs)
    switch (message.kind) {
      case 'status':
        this.#receiveStatus(from, message, nowMs)
        return []
      case 'ask':
        return [{ to: from, message: this.#answer(from, message, nowMs) }]
      case 'answer':
        this.#receiveAnswer(from, message)
        return []
    }
  }

  #baseAt(nowMs: number): number {
    return baseAt(this.#epochs, this.#settings.self, nowMs, this.#loanTimes.drainMs)
  }

  #isLearning(nowMs: number): boolean {
    if (nowMs >= this.#learnsUntilMs) return false
    // A borrower may have lost its loans as well: its units drain first.
    if (this.#isDraining(nowMs)) return true
    const others = this.#regions().filter((region) => region !== this.#settings.self)
    return !others.every((region) => this.#peers.get(region)?.hasReported)
  }

  /** True after a loss of data, while units that were used before may still matter. */
  #isDraining(nowMs: number): boolean {
    return nowMs < this.#learnsUntilMs - this.#times.ttlMs - this.#loanTimes.drainMs
  }

  #regions(): string[] {
    return [...new Set([...this.#epochs.before.keys(), ...this.#epochs.after.keys()])]
  }

  #lentParts(nowMs: number): number {
    const open = this.#lent.filter((loan) => lentAt(loan, nowMs, this.#loanTimes) !== undefined)
    return sumOf(open.map(({ parts }) => parts))
  }

  /** Moves loans to their states of now. */
  #settle(nowMs: number): void {
    this.#lent = this.#lent.flatMap((loan) => lentAt(loan, nowMs, this.#loanTimes) ?? [])
    this.#borrowed = this.#borrowed.flatMap((loan) => {
      if (nowMs < loan.untilMs) return [loan]
      switch (loan.state) {
        case 'borrowed':
          // Its units still matter, which a lender that has lost its data must learn.
          return [{ ...loan, state: 'returning', untilMs: nowMs + this.#loanTimes.drainMs }]
        case 'returning':
          return [{ ...loan, state: 'returned', untilMs: nowMs + this.#times.ttlMs, sent: [] }]
        default:
          return []
      }
    })
  }

  #status(to: string, nowMs: number): PartitionStatus {
    const { self, incarnation } = this.#settings
    const borrowed = this.#borrowed
      .filter(
        ({ lender, state }) => lender === to && (state === 'borrowed' || state === 'returning'),
      )
      .slice(0, LOANS_MAX)
      .map(({ id, parts }) => ({ id, parts }))
    return {
      kind: 'status',
      incarnation,
      // Loans that were lost cannot be reported: the lender waits until their units have drained.
      seen: (!this.#isDraining(nowMs) && this.#peers.get(to)?.incarnation) || STAMP_UNKNOWN,
      epoch: this.#epochs.epoch,
      isConfirmed: this.#epochs.confirmed.has(self),
      demand: Math.round(this.#demand),
      share: this.shareAt(nowMs),
      borrowed,
    }
  }

  #receiveStatus(from: string, status: PartitionStatus, nowMs: number): void {
    const isLearning = this.#isLearning(nowMs)
    const knowsUs = status.seen === this.#settings.incarnation
    const known = this.#peers.get(from)
    // A lender that has lost its data does not know these; a late grant of before is ignored.
    if (known !== undefined && known.incarnation !== status.incarnation) {
      this.#borrowed = this.#borrowed.filter(
        ({ lender, state }) => lender !== from || state !== 'asked',
      )
    }
    this.#peers.set(from, {
      incarnation: status.incarnation,
      demand: status.demand,
      share: status.share,
      hasReported: knowsUs || (known?.hasReported ?? false),
    })
    if (status.isConfirmed) {
      this.#epochs = confirmEpoch(this.#epochs, from, status.epoch, nowMs)
    }
    if (!isLearning) return
    for (const { id, parts } of status.borrowed) this.#relearn(from, id, parts, nowMs)
  }

  /**
   * A loan that the region granted before it lost its data. It is renewed only after units of
   * before have drained.
   */
  #relearn(borrower: string, id: number, parts: number, nowMs: number): void {
    if (this.#lent.some((loan) => loan.borrower === borrower && loan.id === id)) return
    this.#lent = [...this.#lent, beginLoan(borrower, id, parts, nowMs, this.#loanTimes)]
  }

  /** The share that fits the demand of a region, among those that are known. */
  #targetOf(region: string): number {
    const { after } = this.#epochs
    const base = after.get(region) ?? 0
    const demands = [...after.keys()].map((one) => this.#demandOf(one))
    const own = this.#demandOf(region)
    if (own === undefined) return base
    const known = demands.filter((one) => one !== undefined)
    const sum = sumOf(known)
    if (sum === 0) return base
    const unknown = sumOf(
      [...after].flatMap(([one, parts]) => (this.#demandOf(one) === undefined ? [parts] : [])),
    )
    const { minParts } = this.#times
    const shared = Math.max(0, PARTS_MAX - unknown - known.length * minParts)
    return minParts + (shared * own) / sum
  }

  #demandOf(region: string): number | undefined {
    return region === this.#settings.self ? this.#demand : this.#peers.get(region)?.demand
  }

  #richestPeer(): string | undefined {
    const over = [...this.#peers]
      .map(([region, { share }]) => ({ region, parts: share - this.#targetOf(region) }))
      .filter(({ parts }) => parts > this.#times.changePartsMin)
      .toSorted((one, other) => other.parts - one.parts)
    return over[0]?.region
  }

  #giveBack(parts: number, nowMs: number): void {
    let left = parts
    this.#borrowed = this.#borrowed.map((loan) => {
      if (loan.state !== 'borrowed' || loan.parts > left) return loan
      left -= loan.parts
      return { ...loan, state: 'returning', untilMs: nowMs + this.#loanTimes.drainMs }
    })
  }

  #isAskDue({ state, sent }: Borrowed, nowMs: number): boolean {
    if (state === 'returning') return false
    const waitMs = state === 'borrowed' ? this.#times.ttlMs / 3 : this.#times.repeatMs
    return nowMs - (sent.at(-1)?.sentMs ?? -Infinity) >= waitMs
  }

  #ask(loan: Borrowed, nowMs: number): PartitionSend {
    const sequence = this.#sequence++
    this.#borrowed = this.#borrowed.map((one) =>
      one.id === loan.id ? asked(one, sequence, nowMs) : one,
    )
    const isReturned = loan.state === 'returned'
    const { id, parts } = loan
    return { to: loan.lender, message: { kind: 'ask', id, sequence, parts, isReturned } }
  }

  #answer(from: string, ask: PartitionAsk, nowMs: number): PartitionAnswer {
    const { id, sequence } = ask
    const ended: PartitionAnswer = {
      ...{ kind: 'answer', id, sequence },
      ...{ state: 'ended', parts: 0, ttlMs: 0 },
    }
    const isLoan = (loan: Lent) => loan.borrower === from && loan.id === id
    const loan = this.#lent.find(isLoan)
    if (ask.isReturned) {
      this.#lent = this.#lent.filter((one) => !isLoan(one))
      return ended
    }
    if (loan === undefined) return this.#begin(from, ask, nowMs) ?? ended
    const { parts } = loan
    if (loan.state === 'draining') return { ...ended, state: 'draining', parts }
    // Loans that the next base does not cover are not renewed.
    if (this.#baseAt(nowMs) - this.#lentParts(nowMs) < 0) return ended
    this.#lent = this.#lent.map((one) => (isLoan(one) ? granted(one, nowMs, this.#loanTimes) : one))
    return { ...ended, state: 'granted', parts, ttlMs: this.#loanTimes.ttlMs }
  }

  /** Lends parts of the own base only, and never what the region needs itself. */
  #begin(from: string, { id, sequence, parts }: PartitionAsk, nowMs: number) {
    if (this.#isLearning(nowMs) || this.#lent.length >= LOANS_MAX) return undefined
    const { minParts, changePartsMin } = this.#times
    const needed = Math.max(minParts, 1.1 * this.#targetOf(this.#settings.self))
    const free = Math.min(
      this.shareAt(nowMs) - needed,
      this.#baseAt(nowMs) - this.#lentParts(nowMs) - minParts,
    )
    const given = Math.min(parts, Math.floor(free))
    if (given < changePartsMin) return undefined
    this.#lent = [...this.#lent, beginLoan(from, id, given, nowMs, this.#loanTimes)]
    const answer: PartitionAnswer = {
      ...{ kind: 'answer', id, sequence },
      ...{ state: 'draining', parts: given, ttlMs: 0 },
    }
    return answer
  }

  #receiveAnswer(from: string, { id, sequence, state, parts, ttlMs }: PartitionAnswer): void {
    this.#borrowed = this.#borrowed.flatMap((loan) => {
      if (loan.lender !== from || loan.id !== id) return [loan]
      if (state === 'granted') return [received(loan, sequence, parts, ttlMs)]
      // A loan in use lasts until its time, and is not asked for again.
      if (state === 'ended' && loan.state !== 'borrowed') return []
      return [loan]
    })
  }
}
