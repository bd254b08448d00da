/**
 * Versions of a policy as they are kept: `versions/0000000042` has a document, `live/current`
 * points to the one that is live, and `live/canary` to one for a part of the nodes. A version never
 * changes and its number is never used again.
 */

import { createHash } from 'node:crypto'
import { ControlError } from '../control-error.ts'

export interface VersionRecord {
  readonly version: number
  /** The whole text of the document. */
  readonly text: string
  /** `sha256:` and the digest of the text in hexadecimal. */
  readonly hash: string
  readonly by: string
  /** In ISO 8601, by the clock of the publisher. */
  readonly at: string
  readonly why: string
  /** The version that was live before; 0 for the first one. */
  readonly parent: number
  /** The version whose text this one repeats. */
  readonly rollbackOf?: number
  /** The program that published it. */
  readonly program: string
  /** Random, so that a publisher recognises its own version after a lost answer. */
  readonly id: string
}

export interface CurrentPointer {
  readonly version: number
  readonly hash: string
}

/** A version for a part of the nodes. The first field that is set decides. */
export interface CanaryPlace {
  readonly region?: string
  readonly nodes?: readonly string[]
  /** From 0 to 1, by a hash of the name of the node. */
  readonly share?: number
}

export interface CanaryPointer extends CurrentPointer {
  readonly where: CanaryPlace
  /** In ISO 8601. Afterwards every node has the current version. */
  readonly until: string
}

export const CURRENT_KEY = 'live/current'
export const CANARY_KEY = 'live/canary'
export const VERSIONS_PREFIX = 'versions/'

const DIGITS = 10

/** Numbers of a fixed length sort as numbers do. */
export function versionKey(version: number): string {
  return `${VERSIONS_PREFIX}${String(version).padStart(DIGITS, '0')}`
}

export function hashOf(text: string): string {
  return `sha256:${createHash('sha256').update(text).digest('hex')}`
}

/** Throws ControlError `damaged` if the value is not a version, or not the text of its hash. */
export function readVersion(value: string, key: string): VersionRecord {
  const record = parsed(value, key)
  const { version, text, hash, by, at, why, parent, program, id, rollbackOf } = record
  const isValid =
    isNumber(version) &&
    isNumber(parent) &&
    [text, hash, by, at, why, program, id].every((field) => typeof field === 'string') &&
    (rollbackOf === undefined || isNumber(rollbackOf))
  if (!isValid || versionKey(version) !== key) throw damaged(key, 'is not a version')
  if (hashOf(String(text)) !== hash) throw damaged(key, 'has a text that does not fit its hash')
  return record as unknown as VersionRecord
}

export function readPointer(value: string, key: string): CurrentPointer {
  const record = parsed(value, key)
  const { version, hash } = record
  if (!isNumber(version) || typeof hash !== 'string') throw damaged(key, 'is not a pointer')
  return { version, hash }
}

export function readCanary(value: string, key: string): CanaryPointer {
  const record = parsed(value, key)
  const { where, until } = record
  const isValid = typeof where === 'object' && where !== null && typeof until === 'string'
  if (!isValid || Number.isNaN(Date.parse(until))) throw damaged(key, 'is not a canary')
  const { region, nodes, share } = where as Record<string, unknown>
  return {
    ...readPointer(value, key),
    where: {
      ...(typeof region === 'string' && { region }),
      ...(Array.isArray(nodes) && { nodes: nodes.map(String) }),
      ...(typeof share === 'number' && { share }),
    },
    until,
  }
}

export interface NodePlace {
  readonly node: string
  readonly region?: string | undefined
}

export function isCanaryNode({ where, until }: CanaryPointer, place: NodePlace, nowMs: number) {
  if (Date.parse(until) <= nowMs) return false
  const { region, nodes, share } = where
  if (region !== undefined) return place.region === region
  if (nodes !== undefined) return nodes.includes(place.node)
  return share !== undefined && shareOf(place.node) < share
}

/** A number from 0 to 1 that a node always has. */
export function shareOf(node: string): number {
  return createHash('sha256').update(node).digest().readUInt32BE(0) / 2 ** 32
}

function parsed(value: string, key: string): Record<string, unknown> {
  try {
    const record: unknown = JSON.parse(value)
    if (typeof record === 'object' && record !== null) return record as Record<string, unknown>
  } catch {
    // Reported below.
  }
  throw damaged(key, 'is not JSON')
}

function isNumber(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

function damaged(key: string, reason: string): ControlError {
  return new ControlError('damaged', `${key} ${reason}`)
}
