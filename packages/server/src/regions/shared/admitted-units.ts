/**
 * The units that this node admitted in the mode `shared`, until they are reported to the exchanger
 * of the region. Units that are not reported stay as expensive as they were charged, so losing
 * them costs units and never creates them.
 */

import type { Limit } from 'tidegate'
import type { LimitParts } from '../region-limits.ts'

/** Units of one limit, as a tier or an override has it. */
export interface AdmittedGroup {
  readonly name: string
  readonly limit: Limit
  /** By the digest of the key. */
  readonly units: ReadonlyMap<string, number>
}

/** At 12 bytes each, a report has at most 50 KB. Further keys are not reported. */
export const REPORT_KEYS_MAX = 4_096

/** Keys are remembered for one to two of these, longer than their units take to be counted. */
const RECENT_MS = 1_500

interface Group extends AdmittedGroup {
  readonly units: Map<string, number>
}

export class AdmittedUnits {
  /** By the parts of a limit, which are one object for each limit. */
  #groups = new Map<LimitParts, Group>()
  #keys = 0
  #recent = new Set<string>()
  #before = new Set<string>()
  #turnedMs = 0

  note(name: string, limit: Limit, parts: LimitParts, digest: string, units: number): void {
    if (units <= 0) return
    let group = this.#groups.get(parts)
    if (group === undefined) {
      group = { name, limit, units: new Map() }
      this.#groups.set(parts, group)
    }
    const known = group.units.get(digest)
    if (known === undefined && this.#keys >= REPORT_KEYS_MAX) return
    if (known === undefined) this.#keys++
    group.units.set(digest, (known ?? 0) + units)
    this.#turn()
    this.#recent.add(digest)
  }

  /** True if units of the key are perhaps not counted by all regions yet. */
  isRecent(digest: string): boolean {
    this.#turn()
    return this.#recent.has(digest) || this.#before.has(digest)
  }

  /** Returns the units since the last call. */
  take(): readonly AdmittedGroup[] {
    if (this.#keys === 0) return []
    const groups = [...this.#groups.values()]
    this.#groups = new Map()
    this.#keys = 0
    return groups
  }

  #turn(): void {
    const nowMs = performance.now()
    const sinceMs = nowMs - this.#turnedMs
    if (sinceMs < RECENT_MS) return
    this.#before = sinceMs < 2 * RECENT_MS ? this.#recent : new Set()
    this.#recent = new Set()
    this.#turnedMs = nowMs
  }
}
