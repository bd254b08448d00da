/** The messages as proto3 JSON, for the HTTP listener. */

import { unitNamed, unitOfCode } from '../config/units.ts'
import {
  DESCRIPTORS_MAX,
  type Descriptor,
  type DescriptorStatus,
  ENTRIES_MAX,
  HITS_MAX,
  InvalidRequest,
  type RateLimitRequest,
  type RateLimitResponse,
  TEXT_BYTES_MAX,
} from './rate-limit-messages.ts'

const codeNames = ['UNKNOWN', 'OK', 'OVER_LIMIT'] as const

type Fields = Readonly<Record<string, unknown>>

export function requestFromJson(text: string): RateLimitRequest {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    throw new InvalidRequest('no JSON')
  }
  const fields = asFields(parsed)
  const list = asList(fields.descriptors, DESCRIPTORS_MAX)
  return {
    domain: asText(fields.domain),
    descriptors: list.map(descriptorFrom),
    hitsAddend: asWhole(either(fields, 'hitsAddend', 'hits_addend') ?? 0) % 0x1_0000_0000,
  }
}

export function responseToJson(response: RateLimitResponse): string {
  const { overallCode, statuses, headers, dynamicMetadata } = response
  return JSON.stringify({
    ...(overallCode === 0 ? undefined : { overallCode: codeNames[overallCode] }),
    ...(statuses.length === 0 ? undefined : { statuses: statuses.map(statusToJson) }),
    ...(headers.length === 0 ? undefined : { responseHeadersToAdd: headers }),
    ...(dynamicMetadata === undefined ? undefined : { dynamicMetadata }),
  })
}

function statusToJson({ code, currentLimit, limitRemaining, resetSeconds }: DescriptorStatus) {
  const { requestsPerUnit = 0, unit = 0, name = '' } = currentLimit ?? {}
  return {
    ...(code === 0 ? undefined : { code: codeNames[code] }),
    ...(currentLimit === undefined
      ? undefined
      : {
          currentLimit: {
            ...(requestsPerUnit === 0 ? undefined : { requestsPerUnit }),
            ...(unit === 0 ? undefined : { unit: unitOfCode(unit)?.name ?? unit }),
            ...(name === '' ? undefined : { name }),
          },
        }),
    ...(limitRemaining === 0 ? undefined : { limitRemaining }),
    ...(resetSeconds === undefined ? undefined : { durationUntilReset: `${resetSeconds}s` }),
  }
}

function descriptorFrom(value: unknown): Descriptor {
  const fields = asFields(value)
  const hits = either(fields, 'hitsAddend', 'hits_addend')
  const limit = fields.limit === undefined ? undefined : asFields(fields.limit)
  return {
    entries: asList(fields.entries, ENTRIES_MAX).map((entry) => {
      const { key, value: text } = asFields(entry)
      return { key: asText(key), value: asText(text) }
    }),
    limit:
      limit === undefined
        ? undefined
        : {
            requestsPerUnit: asWhole(either(limit, 'requestsPerUnit', 'requests_per_unit') ?? 0),
            unit: unitFrom(limit.unit),
          },
    hitsAddend: hits === undefined || hits === null ? undefined : asWhole(hits),
    isNegativeHits: either(fields, 'isNegativeHits', 'is_negative_hits') === true,
  }
}

function unitFrom(value: unknown): number {
  if (typeof value === 'number') return value
  return unitNamed(asText(value))?.code ?? 0
}

function either(fields: Fields, name: string, other: string): unknown {
  return fields[name] ?? fields[other]
}

function asFields(value: unknown): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields
  throw new InvalidRequest('a value is not an object')
}

function asList(value: unknown, most: number): readonly unknown[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) throw new InvalidRequest('a value is not a list')
  if (value.length > most) throw new InvalidRequest(`a list of more than ${most}`)
  return value
}

function asText(value: unknown): string {
  if (value === undefined || value === null) return ''
  if (typeof value === 'string' && value.length <= TEXT_BYTES_MAX) return value
  throw new InvalidRequest(`a value is not a text of at most ${TEXT_BYTES_MAX} characters`)
}

/** A number, or a text of one, as 64 bits are written. */
function asWhole(value: unknown): number {
  const number = typeof value === 'string' && /^\d{1,20}$/.test(value) ? Number(value) : value
  if (typeof number === 'number' && number >= 0 && Number.isInteger(number)) {
    return Math.min(number, HITS_MAX)
  }
  throw new InvalidRequest('a value is not a whole number')
}
