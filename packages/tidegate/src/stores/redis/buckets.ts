/**
 * Buckets: on Redis Cluster, a script call reaches one slot only. Keys that all lay in slots of
 * their own could not travel together, so they share a small number of slots. Each bucket is a hash
 * tag; the slots of the tags are evenly spaced, so that masters have equal shares of them.
 *
 * The tags of a number never change, because keys in Redis contain them.
 */

import { SLOTS, slotOf } from './cluster-slot.ts'

/**
 * A bucket is a slot that cannot be split: with more masters than this divided by ten, shares
 * differ by more than a tenth.
 */
export const BUCKETS_MAX = 1_024

/** The page docs/decisions/cluster-buckets.md has the measurements. */
export const BUCKETS_DEFAULT = 32

const CHARACTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'

/** The tags by their buckets: for each the text of two characters with the nearest slot. */
export function bucketTags(count: number): readonly string[] {
  const bySlot = tagsBySlot()
  return Array.from({ length: count }, (_, at) => {
    const wanted = Math.floor(((at + 0.5) * SLOTS) / count)
    for (let distance = 0; ; distance++) {
      const tag = bySlot[wanted + distance] ?? bySlot[wanted - distance]
      if (tag !== undefined) return tag
    }
  })
}

function tagsBySlot(): string[] {
  const tags: string[] = []
  for (const first of CHARACTERS) {
    for (const second of CHARACTERS) {
      const tag = `{${first}${second}}`
      tags[slotOf(tag)] ??= tag
    }
  }
  return tags
}
