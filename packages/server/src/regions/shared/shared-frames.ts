/**
 * The messages of the mode `shared` between nodes: the units that a node reports to the exchanger
 * of its region, and the rows that two exchangers send each other. Both name the limit with its
 * numbers, because tiers and overrides are known where the request is.
 */

import { hash } from 'node:crypto'
import type { Limit } from 'tidegate'
import { decodeShared, encodeShared, type SharedMessage } from 'tidegate/regions'
import { ByteReader, ByteWriter, MessageError } from '../link/bytes.ts'
import { readLimit, writeLimit } from '../peer/limit-bytes.ts'
import { type AdmittedGroup, REPORT_KEYS_MAX } from './admitted-units.ts'

export interface SharedFrame {
  readonly name: string
  readonly limit: Limit
  /** The clock of the sender's store when it was sent. */
  readonly storeMs: number
  readonly message: SharedMessage
}

const NAME_BYTES_MAX = 96
const DIGEST_BYTES = 9

/** A policy has at most as many limits. */
const GROUPS_MAX = 4_096

export function encodeFrame({ name, limit, storeMs, message }: SharedFrame): Buffer {
  const writer = new ByteWriter().whole(storeMs).text(name)
  writeLimit(writer, limit)
  return writer.bytes(encodeShared(message)).finish()
}

/** Throws a `MessageError`. */
export function decodeFrame(bytes: Uint8Array): SharedFrame {
  const reader = new ByteReader(bytes)
  const storeMs = reader.whole()
  const name = reader.text(NAME_BYTES_MAX, 'name')
  const limit = readLimit(reader)
  try {
    return { name, limit, storeMs, message: decodeShared(reader.rest()) }
  } catch (error) {
    throw new MessageError(error instanceof Error ? error.message : String(error))
  }
}

export function encodeReport(groups: readonly AdmittedGroup[]): Buffer {
  const writer = new ByteWriter().whole(groups.length)
  for (const { name, limit, units } of groups) {
    writeLimit(writer.text(name), limit)
    writer.whole(units.size)
    for (const [digest, count] of units) {
      writer.bytes(Buffer.from(digest, 'base64url')).whole(count)
    }
  }
  return writer.finish()
}

/** Throws a `MessageError`. */
export function decodeReport(bytes: Uint8Array): readonly AdmittedGroup[] {
  const reader = new ByteReader(bytes)
  return Array.from({ length: reader.count(GROUPS_MAX, 'limits') }, () => {
    const name = reader.text(NAME_BYTES_MAX, 'name')
    const limit = readLimit(reader)
    const count = reader.count(REPORT_KEYS_MAX, 'keys')
    const units = new Map<string, number>()
    for (let at = 0; at < count; at++) {
      units.set(reader.bytes(DIGEST_BYTES).toString('base64url'), reader.whole())
    }
    return { name, limit, units }
  })
}

/** Names a limit with its numbers, in a key of the region's Redis. */
export function groupId(name: string, limit: Limit): string {
  return hash('sha256', groupBytes(name, limit), 'base64url').slice(0, 12)
}

export function groupBytes(name: string, limit: Limit): Buffer {
  const writer = new ByteWriter().text(name)
  writeLimit(writer, limit)
  return writer.finish()
}

/** Throws a `MessageError`. */
export function readGroup(bytes: Uint8Array): { readonly name: string; readonly limit: Limit } {
  const reader = new ByteReader(bytes)
  return { name: reader.text(NAME_BYTES_MAX, 'name'), limit: readLimit(reader) }
}
