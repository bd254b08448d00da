/**
 * The one error class. It reports wrong use of the library and what became of a call to a store,
 * never a denial; its code is from a closed list, so that callers can switch on it.
 */

export const errorCodes = [
  /** An option is missing, unknown or out of range. */
  'invalid-option',
  /** A key is empty, not a string, or too long. */
  'invalid-key',
  /** A cost is not a whole number from 0 to 2^53 - 1. */
  'invalid-cost',
  /** The call does not fit the limiter, such as checkSync on a remote store. */
  'wrong-use',
  /** A reservation was committed a second time. */
  'already-settled',
  /** A store has more calls waiting than it may have. */
  'overloaded',
  /** A store has not answered in time; whether it has charged is unknown. */
  'store-timeout',
  /** There is no connection to a store, or it broke before the answer. */
  'store-unreachable',
  /** A store is there but cannot serve just now: it loads, fails over, is full or busy. */
  'store-failed',
  /** A store refuses what no waiting will mend: permissions, types, scripts, slots. */
  'store-misused',
  /** The limiter was closed. */
  'closed',
] as const

export type ErrorCode = (typeof errorCodes)[number]

export interface ErrorPlace {
  /** Where the offending value stands, such as `limits.org.per`. */
  readonly path: string
  /** The offending value itself. */
  readonly value: unknown
  /** What would have been accepted. */
  readonly allowed: string
}

export class TidegateError extends Error {
  readonly code: ErrorCode
  readonly path: string | undefined
  readonly value: unknown
  readonly allowed: string | undefined

  constructor(code: ErrorCode, message: string, place?: ErrorPlace, options?: ErrorOptions) {
    super(message, options)
    this.name = 'TidegateError'
    this.code = code
    this.path = place?.path
    this.value = place?.value
    this.allowed = place?.allowed
  }
}

/** An error that names the place, the value and what is allowed there. */
export function invalid(code: ErrorCode, place: ErrorPlace): TidegateError {
  const message = `${place.path}: got ${show(place.value)}, allowed: ${place.allowed}`
  return new TidegateError(code, message, place)
}

/** Long enough to recognise a value, short enough for a log line. */
const SHOWN_LENGTH_MAX = 80

function show(value: unknown): string {
  const text = typeof value === 'string' ? JSON.stringify(value) : describe(value)
  return text.length > SHOWN_LENGTH_MAX ? `${text.slice(0, SHOWN_LENGTH_MAX)}…` : text
}

function describe(value: unknown): string {
  if (typeof value === 'function') return 'a function'
  if (Array.isArray(value)) return `an array of ${value.length}`
  if (typeof value === 'object' && value !== null) return 'an object'
  return String(value)
}
