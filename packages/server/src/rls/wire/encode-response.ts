/** From a RateLimitResponse to bytes. */

import type { ProtoWriter } from './proto-writer.ts'
import type { DescriptorStatus, RateLimitResponse } from './rate-limit-messages.ts'
import type { JsonObject, JsonValue } from './struct.ts'

export function writeResponse(writer: ProtoWriter, response: RateLimitResponse): void {
  writer.clear()
  writer.number(1, response.overallCode)
  for (const status of response.statuses) writeStatus(writer, status)
  for (const { key, value } of response.headers) {
    const start = writer.begin(3)
    writer.text(1, key)
    writer.text(2, value)
    writer.end(start)
  }
  if (response.dynamicMetadata !== undefined) {
    const start = writer.begin(6)
    writeStruct(writer, response.dynamicMetadata)
    writer.end(start)
  }
}

function writeStatus(writer: ProtoWriter, status: DescriptorStatus): void {
  const start = writer.begin(2)
  writer.number(1, status.code)
  const { currentLimit, resetSeconds } = status
  if (currentLimit !== undefined) {
    const limitStart = writer.begin(2)
    writer.number(1, currentLimit.requestsPerUnit)
    writer.number(2, currentLimit.unit)
    writer.text(3, currentLimit.name)
    writer.end(limitStart)
  }
  writer.number(3, status.limitRemaining)
  if (resetSeconds !== undefined) {
    const resetStart = writer.begin(4)
    writer.number(1, resetSeconds)
    writer.end(resetStart)
  }
  writer.end(start)
}

function writeStruct(writer: ProtoWriter, struct: JsonObject): void {
  for (const [name, value] of Object.entries(struct)) {
    const start = writer.begin(1)
    writer.text(1, name)
    const valueStart = writer.begin(2)
    writeValue(writer, value)
    writer.end(valueStart)
    writer.end(start)
  }
}

/** A oneof: its field is written also if it is 0 or empty. */
function writeValue(writer: ProtoWriter, value: JsonValue): void {
  if (typeof value === 'number') writer.double(2, value)
  else if (typeof value === 'boolean') writer.presentNumber(4, value ? 1 : 0)
  else if (value === null) writer.presentNumber(1, 0)
  else if (typeof value === 'string') {
    const start = writer.begin(3)
    writer.raw(value)
    writer.end(start)
  } else if (Array.isArray(value)) {
    const start = writer.begin(6)
    for (const item of value as readonly JsonValue[]) {
      const itemStart = writer.begin(1)
      writeValue(writer, item)
      writer.end(itemStart)
    }
    writer.end(start)
  } else {
    const start = writer.begin(5)
    writeStruct(writer, value as JsonObject)
    writer.end(start)
  }
}
