/**
 * The one error class. It reports wrong use of the library and failed calls of a store, never a
 * denial. Its code is from a closed list, so that callers can switch on it.
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
  /** Too many calls wait to be sent to a store, or one waited too long. */
  'overloaded',
  /** A store has not answered in time; whether it has charged is unknown. */
  'store-timeout',
  /** There is no connection to a store, or it broke before the answer. */
  'store-unreachable',
  /** A store answers but cannot serve now: it loads, fails over, is full or busy. */
  'store-failed',
  /** A store refuses until its set-up changes: permissions, types, scripts, slots. */
  'store-misconfigured',
  /** The limiter was closed. */
  'closed',
] as const

export type ErrorCode = (typeof errorCodes)[number]

export interface ErrorPlace {
  /** The path of the rejected value, such as `limits.org.per`. */
  readonly path: string
  /** The rejected value. */
  readonly value: unknown
  /** The values that are accepted. */
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

/** An error with the path, the value and the values that are allowed. */
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
