/**
 * W3C Trace Context: reads and writes `traceparent` and `tracestate`. Values that the standard
 * calls invalid are not read, so that a client cannot put its own text into spans and logs.
 * https://www.w3.org/TR/trace-context/
 */

export interface TraceContext {
  /** 32 hexadecimal digits in lower case, not all zero. */
  readonly traceId: string
  /** 16 hexadecimal digits in lower case, not all zero: the span that is the parent of others. */
  readonly spanId: string
  readonly isSampled: boolean
  /** The members of vendors, passed on as they are. */
  readonly tracestate?: string
}

/** The length of version 00. */
const LENGTH = 55

/** A later version may append fields. No field of a header is longer than this in practice. */
const LENGTH_MAX = 256

const traceparent = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?$/

const NO_TRACE = '0'.repeat(32)
const NO_SPAN = '0'.repeat(16)

const FIRST_VERSION = '00'
const INVALID_VERSION = 'ff'

const SAMPLED = 1

/** https://www.w3.org/TR/trace-context/#traceparent-header */
export function parseTraceparent(text: string): TraceContext | undefined {
  if (text.length < LENGTH || text.length > LENGTH_MAX) return undefined
  // Cut by position, so that no array of groups is made.
  if (!traceparent.test(text) || text.startsWith(INVALID_VERSION)) return undefined
  if (text.startsWith(FIRST_VERSION) && text.length !== LENGTH) return undefined
  const traceId = text.slice(3, 35)
  const spanId = text.slice(36, 52)
  if (traceId === NO_TRACE || spanId === NO_SPAN) return undefined
  const isSampled = (Number.parseInt(text.slice(53, LENGTH), 16) & SAMPLED) === SAMPLED
  return { traceId, spanId, isSampled }
}

export function formatTraceparent({ traceId, spanId, isSampled }: TraceContext): string {
  return `${FIRST_VERSION}-${traceId}-${spanId}-${isSampled ? '01' : '00'}`
}

/** The length that every participant should pass on. Longer lists are shortened to it. */
const TRACESTATE_LENGTH_MAX = 512

const MEMBERS_MAX = 32

/** Longer members are removed first from a list that is too long. */
const LONG_MEMBER_LENGTH = 128

/** The key of a vendor, or of a tenant at its vendor. */
const key = /(?:[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})/

/** Printable ASCII without the comma and the equals sign; the last one is not a space. */
const value = /[ -+\--<>-~]{0,255}[!-+\--<>-~]/

const member = new RegExp(`^${key.source}=${value.source}$`)

/**
 * Returns the list to pass on: undefined if it is empty or not valid, and without whole members if
 * it is too long. https://www.w3.org/TR/trace-context/#tracestate-header
 */
export function parseTracestate(text: string): string | undefined {
  // More than a head can have of members that all are kept.
  if (text.length > 4 * TRACESTATE_LENGTH_MAX) return undefined
  const members: string[] = []
  for (const part of text.split(',')) {
    const one = part.trim()
    if (one === '') continue
    if (members.length === MEMBERS_MAX || !member.test(one)) return undefined
    members.push(one)
  }
  const kept = shortened(members).join(',')
  return kept === '' ? undefined : kept
}

/** Removes long members first, then those at the end, which are the oldest. */
function shortened(members: readonly string[]): readonly string[] {
  let excess = members.join(',').length - TRACESTATE_LENGTH_MAX
  if (excess <= 0) return members
  const kept = members.filter((one) => {
    if (excess <= 0 || one.length <= LONG_MEMBER_LENGTH) return true
    excess -= one.length + 1
    return false
  })
  while (kept.join(',').length > TRACESTATE_LENGTH_MAX) kept.pop()
  return kept
}
