/**
 * How far the clocks of other regions' stores are ahead of the one here, by the times in their
 * messages. A message takes time, so the least delayed of the last ones is the most exact.
 */

const MESSAGES_MAX = 16

export class PeerOffsets {
  readonly #last = new Map<string, number[]>()

  /** `aheadMs` is the time of sending by the clock there, less that of the receipt here. */
  add(peer: string, aheadMs: number): void {
    const last = this.#last.get(peer) ?? []
    last.push(aheadMs)
    if (last.length > MESSAGES_MAX) last.shift()
    this.#last.set(peer, last)
  }

  *[Symbol.iterator](): Generator<readonly [peer: string, offsetMs: number]> {
    for (const [peer, last] of this.#last) yield [peer, Math.max(...last)]
  }
}
