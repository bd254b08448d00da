/** The numbers of a limit as bytes between regions. */

import {
  type AlgorithmName,
  algorithmNames,
  type CalendarUnit,
  type Limit,
  TidegateError,
} from 'tidegate'
import { makeLimit } from '../../limits/compile/make-limit.ts'
import { type ByteReader, type ByteWriter, MessageError } from '../link/bytes.ts'

const ZONE_BYTES_MAX = 64

const calendarUnits = ['day', 'week', 'month'] as const

/** A period in milliseconds, instead of a unit of the calendar. */
const PERIOD_MS = 0

export function writeLimit(writer: ByteWriter, limit: Limit): void {
  writer.byte(algorithmNames.indexOf(limit.algorithm)).whole(limit.limit)
  switch (limit.algorithm) {
    case 'tokenBucket':
      writer.whole(limit.perMs).whole(limit.burst)
      return
    case 'slidingWindow':
    case 'slidingLog':
      writer.whole(limit.perMs)
      return
    case 'fixedWindow':
      if (typeof limit.per === 'number') writer.byte(PERIOD_MS).whole(limit.per)
      else writer.byte(1 + calendarUnits.indexOf(limit.per.unit)).text(limit.per.timeZone)
      return
    case 'concurrency':
      writer.whole(limit.ttlMs)
  }
}

/** Limits that were read before, by their bytes: the same object each time, made once. */
const known = new Map<string, Limit>()

/** Tiers and overrides of a policy have far fewer. */
const KNOWN_MAX = 4_096

/** Throws a `MessageError`. */
export function readLimit(reader: ByteReader): Limit {
  const from = reader.offset
  const settings = readNumbers(reader)
  const bytes = reader.since(from).toString('latin1')
  const found = known.get(bytes)
  if (found !== undefined) return found
  try {
    const limit = makeLimit(settings)
    if (known.size >= KNOWN_MAX) known.clear()
    known.set(bytes, limit)
    return limit
  } catch (error) {
    if (error instanceof TidegateError) throw new MessageError(error.message)
    throw error
  }
}

interface Numbers {
  readonly algorithm: AlgorithmName
  readonly limit: number
  readonly per?: number | CalendarUnit
  readonly burst?: number
  readonly ttl?: number
  readonly timeZone?: string
}

function readNumbers(reader: ByteReader): Numbers {
  const algorithm = algorithmNames[reader.byte()]
  const limit = reader.whole()
  switch (algorithm) {
    case 'tokenBucket': {
      const per = reader.whole()
      const burst = reader.whole()
      return { algorithm, limit, per, ...(burst > 0 && { burst }) }
    }
    case 'slidingWindow':
    case 'slidingLog':
      return { algorithm, limit, per: reader.whole() }
    case 'fixedWindow': {
      const unit = reader.byte()
      if (unit === PERIOD_MS) return { algorithm, limit, per: reader.whole() }
      const per = calendarUnits[unit - 1]
      if (per === undefined) throw new MessageError('a unit of the calendar is not known')
      return { algorithm, limit, per, timeZone: reader.text(ZONE_BYTES_MAX, 'time zone') }
    }
    case 'concurrency':
      return { algorithm, limit, ttl: reader.whole() }
    default:
      throw new MessageError('an algorithm is not known')
  }
}
