/**
 * The regions of a policy, and the home of each key: the region whose store keeps its counter. All
 * nodes with the same list find the same home, and a new region moves only the keys that it gets.
 */

import { createHash, hash } from 'node:crypto'
import type { RegionsSection } from '../policy/schema/regions/regions-section.ts'

export interface Topology {
  /** The region of this node. */
  readonly self: string
  /** All regions, this one included, in alphabetical order. */
  readonly names: readonly string[]
  /** The other regions. */
  readonly peers: readonly string[]
  readonly endpoints: ReadonlyMap<string, string>
  readonly shares: ReadonlyMap<string, number>
  readonly sharesSum: number
  /**
   * The same for nodes that find the same homes: 8 bytes of a digest of names and shares. A node
   * answers no node with another one, because a key with two homes would have two counters.
   */
  readonly fingerprint: Buffer
  /**
   * The home of a key, by its digest of `keyDigest`. Without some regions, it is the home that the
   * key would have if the list did not have them.
   */
  homeOf(digest: string, isLeftOut?: (name: string) => boolean): string
}

const FINGERPRINT_BYTES = 8

/** 96 bits: keys of two clients never meet, and a key on the wire has 16 characters. */
const DIGEST_CHARACTERS = 16

export function createTopology(self: string, { list }: RegionsSection): Topology {
  const names = Object.keys(list).sort()
  const shares = new Map(names.map((name) => [name, list[name]?.share ?? 1]))
  const seeds = names.map((name) => seedOf(name))
  const weights = names.map((name) => shares.get(name) ?? 1)
  return {
    self,
    names,
    peers: names.filter((name) => name !== self),
    endpoints: new Map(names.map((name) => [name, list[name]?.endpoint ?? ''])),
    shares,
    sharesSum: weights.reduce((sum, weight) => sum + weight, 0),
    fingerprint: fingerprintOf(names, weights),
    homeOf(digest, isLeftOut) {
      const ofKey = hashOf(digest)
      let best = 0
      let bestScore = -1
      for (let at = 0; at < names.length; at++) {
        const score = scoreOf(ofKey, seeds[at] as number, weights[at] as number)
        if (score <= bestScore || isLeftOut?.(names[at] as string) === true) continue
        best = at
        bestScore = score
      }
      return names[best] as string
    },
  }
}

/** The key of a counter that regions share: no text of a client crosses the link. */
export function keyDigest(name: string, key: string): string {
  return hash('sha256', `${name}\0${key}`, 'base64url').slice(0, DIGEST_CHARACTERS)
}

/**
 * Weighted rendezvous hashing: the region with the highest score is the home. Each score depends on
 * one region only, so a change of another region changes nothing between these two.
 */
function scoreOf(ofKey: number, seed: number, weight: number): number {
  const mixed = mix(ofKey ^ seed)
  // Between 0 and 1, both excluded.
  const uniform = (mixed + 0.5) / 2 ** 32
  return -weight / Math.log(uniform)
}

/** The finalizer of MurmurHash3, which spreads every bit over all 32. */
function mix(value: number): number {
  let mixed = value | 0
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

/** FNV-1a over characters that are a digest already. */
function hashOf(digest: string): number {
  let value = 0x811c9dc5
  for (let at = 0; at < digest.length; at++) {
    value = Math.imul(value ^ digest.charCodeAt(at), 0x01000193)
  }
  return value
}

function seedOf(name: string): number {
  return createHash('sha256').update(name).digest().readInt32BE(0)
}

function fingerprintOf(names: readonly string[], weights: readonly number[]): Buffer {
  const text = names.map((name, at) => `${name}=${weights[at]}`).join('\n')
  return createHash('sha256').update(text).digest().subarray(0, FINGERPRINT_BYTES)
}
