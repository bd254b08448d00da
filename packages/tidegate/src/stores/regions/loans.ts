/**
 * Loans of parts between regions. The parts of all regions together never exceed the whole, because
 * parts change hands in this order: the lender stops using them, waits until units that it used
 * with them no longer matter, and grants them. The borrower stops using them before the lender
 * takes them back.
 *
 * Times are durations on the steady clock of each side: the borrower counts from when it asked, the
 * lender from when it answered, so that clocks may differ.
 */

export const lentStates = ['draining', 'ready', 'lent'] as const
export type LentState = (typeof lentStates)[number]

export interface Lent {
  readonly borrower: string
  readonly id: number
  readonly parts: number
  readonly state: LentState
  /** When the state ends. */
  readonly untilMs: number
}

export const borrowedStates = ['asked', 'borrowed', 'returning', 'returned'] as const
export type BorrowedState = (typeof borrowedStates)[number]

export interface Borrowed {
  readonly lender: string
  readonly id: number
  readonly parts: number
  readonly state: BorrowedState
  readonly untilMs: number
  /** The last requests, by their numbers: when each was sent. */
  readonly sent: readonly { readonly sequence: number; readonly sentMs: number }[]
}

export interface LoanTimes {
  /** How long nodes may use a share after it has changed, used units matter, and clocks differ. */
  readonly drainMs: number
  readonly ttlMs: number
}

/** Clocks of two regions run at rates that differ by less than this. */
const DRIFT_MAX = 0.01

const MARGIN_MS = 1_000

/** Requests that are under way at a time; answers to older ones are ignored. */
const SENT_MAX = 4

/** The loan that an accepted request begins. */
export function beginLoan(
  borrower: string,
  id: number,
  parts: number,
  nowMs: number,
  { drainMs }: LoanTimes,
): Lent {
  return { borrower, id, parts, state: 'draining', untilMs: nowMs + drainMs }
}

/** The loan at `nowMs`; undefined if its parts are the lender's again. */
export function lentAt(loan: Lent, nowMs: number, { ttlMs }: LoanTimes): Lent | undefined {
  if (nowMs < loan.untilMs) return loan
  if (loan.state === 'draining') return { ...loan, state: 'ready', untilMs: loan.untilMs + ttlMs }
  return undefined
}

/** The loan after it was granted, again and for longer if it was lent before. */
export function granted(loan: Lent, nowMs: number, { drainMs, ttlMs }: LoanTimes): Lent {
  return { ...loan, state: 'lent', untilMs: nowMs + ttlMs + drainMs }
}

export function asked(loan: Borrowed, sequence: number, nowMs: number): Borrowed {
  return { ...loan, sent: [...loan.sent, { sequence, sentMs: nowMs }].slice(-SENT_MAX) }
}

/** The loan after a grant that answers the request of that number. */
export function received(loan: Borrowed, sequence: number, parts: number, ttlMs: number): Borrowed {
  const request = loan.sent.find((one) => one.sequence === sequence)
  if (request === undefined || (loan.state !== 'asked' && loan.state !== 'borrowed')) return loan
  const untilMs = request.sentMs + ttlMs * (1 - DRIFT_MAX) - MARGIN_MS
  const last = loan.state === 'borrowed' ? loan.untilMs : -Infinity
  return { ...loan, parts, state: 'borrowed', untilMs: Math.max(last, untilMs) }
}

/** Times and steps, with the reason for each default. */
export interface PartitionTimes {
  /** How long a node may use a share that has changed. Default: 10 s, five heartbeats. */
  readonly ticketMs: number
  /** How long a loan lasts. Default: 15 min, three rebalances. */
  readonly ttlMs: number
  /** Between two requests for a loan that is not granted yet. Default: 2 s. */
  readonly repeatMs: number
  /** Demand is an average over this time. Default: 10 min. */
  readonly smoothMs: number
  /** The least share of a region, for its first requests. Default: 500 parts, 5 %. */
  readonly minParts: number
  /** The most parts of a loan. Default: 1,000, so that a share moves in steps. */
  readonly stepParts: number
  /** A smaller change is not worth a loan. Default: 200 parts. */
  readonly changePartsMin: number
}

const defaults: PartitionTimes = {
  ticketMs: 10_000,
  ttlMs: 900_000,
  repeatMs: 2_000,
  smoothMs: 600_000,
  minParts: 500,
  stepParts: 1_000,
  changePartsMin: 200,
}

export function partitionTimes(times: Partial<PartitionTimes> = {}): PartitionTimes {
  return { ...defaults, ...times }
}
