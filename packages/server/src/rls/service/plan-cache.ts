/**
 * Plans of requests that came before, by their bytes: the same few thousand descriptors come again
 * and again. Two generations, of which the older is dropped when the younger is full.
 */

import type { Plan } from './plan.ts'

/** Each takes about a kilobyte. */
const GENERATION_MAX = 16_384

/** Longer messages are rare, and planning costs little compared to judging them. */
const MESSAGE_BYTES_MAX = 512

export class PlanCache {
  #young = new Map<string, Plan>()
  #old = new Map<string, Plan>()

  /** The text that stands for a message; undefined where it is not kept. */
  keyOf(bytes: Buffer, start: number, end: number): string | undefined {
    return end - start > MESSAGE_BYTES_MAX ? undefined : bytes.toString('latin1', start, end)
  }

  get(key: string): Plan | undefined {
    const plan = this.#young.get(key)
    if (plan !== undefined) return plan
    const old = this.#old.get(key)
    if (old !== undefined) this.set(key, old)
    return old
  }

  set(key: string, plan: Plan): void {
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
