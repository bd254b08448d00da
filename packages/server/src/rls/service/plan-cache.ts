/**
 * Plans of earlier requests, by their bytes: most traffic repeats a few thousand descriptors. There
 * are two generations; the older one is dropped when the younger one is full.
 */

import type { RlsPlan } from './rls-plan.ts'

/** A plan takes about 1 KB, so that both generations take at most 32 MB. */
const GENERATION_MAX = 16_384

/** Longer messages are rare, and planning them costs little compared to charging them. */
const MESSAGE_BYTES_MAX = 512

export class PlanCache {
  #young = new Map<string, RlsPlan>()
  #old = new Map<string, RlsPlan>()

  /** The cache key of a message; undefined if its plan is not cached. */
  keyOf(bytes: Buffer, start: number, end: number): string | undefined {
    return end - start > MESSAGE_BYTES_MAX ? undefined : bytes.toString('latin1', start, end)
  }

  get(key: string): RlsPlan | undefined {
    const plan = this.#young.get(key)
    if (plan !== undefined) return plan
    const old = this.#old.get(key)
    if (old !== undefined) this.set(key, old)
    return old
  }

  set(key: string, plan: RlsPlan): void {
    if (this.#young.size >= GENERATION_MAX) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(key, plan)
  }

  clear(): void {
    this.#young.clear()
    this.#old.clear()
  }
}
