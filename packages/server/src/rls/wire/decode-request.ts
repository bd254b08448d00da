/** From bytes to a RateLimitRequest, within the caps of rate-limit-messages.ts. */

import { ProtoReader, wireTypes } from './proto-reader.ts'
import {
  DESCRIPTORS_MAX,
  type Descriptor,
  type DescriptorEntry,
  ENTRIES_MAX,
  HITS_MAX,
  InvalidRequest,
  type RateLimitRequest,
  TEXT_BYTES_MAX,
} from './rate-limit-messages.ts'

const UINT32 = 0x1_0000_0000

/** Throws InvalidRequest. Fields that are not known are skipped. */
export function readRequest(bytes: Buffer, start: number, end: number): RateLimitRequest {
  const reader = new ProtoReader(bytes, start, end)
  const descriptors: Descriptor[] = []
  let domain = ''
  let hitsAddend = 0
  while (reader.hasMore) {
    const tag = reader.varint()
    if (tag === tagOf(1, wireTypes.bytes)) domain = capped(reader.text(), 'domain')
    else if (tag === tagOf(2, wireTypes.bytes)) {
      if (descriptors.length >= DESCRIPTORS_MAX) {
        throw new InvalidRequest(`more than ${DESCRIPTORS_MAX} descriptors`)
      }
      descriptors.push(reader.nested(readDescriptor))
    } else if (tag === tagOf(3, wireTypes.varint)) hitsAddend = reader.varint() % UINT32
    else skip(reader, tag)
  }
  return { domain, descriptors, hitsAddend }
}

function readDescriptor(reader: ProtoReader): Descriptor {
  const entries: DescriptorEntry[] = []
  let limit: Descriptor['limit']
  let hitsAddend: number | undefined
  let isNegativeHits = false
  while (reader.hasMore) {
    const tag = reader.varint()
    if (tag === tagOf(1, wireTypes.bytes)) {
      if (entries.length >= ENTRIES_MAX) {
        throw new InvalidRequest(`more than ${ENTRIES_MAX} entries in a descriptor`)
      }
      entries.push(reader.nested(readEntry))
    } else if (tag === tagOf(2, wireTypes.bytes)) limit = reader.nested(readOverride)
    else if (tag === tagOf(3, wireTypes.bytes)) hitsAddend = reader.nested(readWrapped)
    else if (tag === tagOf(4, wireTypes.varint)) isNegativeHits = reader.varint() !== 0
    else skip(reader, tag)
  }
  return { entries, limit, hitsAddend, isNegativeHits }
}

function readEntry(reader: ProtoReader): DescriptorEntry {
  let key = ''
  let value = ''
  while (reader.hasMore) {
    const tag = reader.varint()
    if (tag === tagOf(1, wireTypes.bytes)) key = capped(reader.text(), 'key')
    else if (tag === tagOf(2, wireTypes.bytes)) value = capped(reader.text(), 'value')
    else skip(reader, tag)
  }
  return { key, value }
}

function readOverride(reader: ProtoReader): { requestsPerUnit: number; unit: number } {
  let requestsPerUnit = 0
  let unit = 0
  while (reader.hasMore) {
    const tag = reader.varint()
    if (tag === tagOf(1, wireTypes.varint)) requestsPerUnit = reader.varint() % UINT32
    else if (tag === tagOf(2, wireTypes.varint)) unit = reader.varint()
    else skip(reader, tag)
  }
  return { requestsPerUnit, unit }
}

/** A UInt64Value. */
function readWrapped(reader: ProtoReader): number {
  let value = 0
  while (reader.hasMore) {
    const tag = reader.varint()
    if (tag === tagOf(1, wireTypes.varint)) value = Math.min(reader.varint(), HITS_MAX)
    else skip(reader, tag)
  }
  return value
}

function skip(reader: ProtoReader, tag: number): void {
  if (tag < 8) throw new InvalidRequest('the field number 0')
  reader.skip(tag % 8)
}

function tagOf(field: number, wireType: number): number {
  return field * 8 + wireType
}

function capped(text: string, name: string): string {
  if (text.length <= TEXT_BYTES_MAX) return text
  throw new InvalidRequest(`a ${name} of more than ${TEXT_BYTES_MAX} bytes`)
}
