/**
 * Changes of the regions and their bases, in two steps: a region that sees the next epoch uses the
 * smaller of its two bases at once. It uses the larger one when every region of both epochs has
 * confirmed, and units that were used under the old bases no longer matter.
 *
 * A removed region confirms by stopping. An operator confirms for one that is lost for good.
 */

export type Bases = ReadonlyMap<string, number>

export interface Epochs {
  readonly epoch: number
  /** Parts of each region before the epoch; a region that was not there has none. */
  readonly before: Bases
  readonly after: Bases
  readonly confirmed: ReadonlySet<string>
  /** When the last region was known to have confirmed, on the steady clock. */
  readonly agreedMs: number | undefined
}

/** The epoch that a region starts with. With bases before it, the change is not complete. */
export function firstEpoch(epoch: number, bases: Bases, before?: Bases): Epochs {
  if (before !== undefined) {
    return { epoch, before, after: bases, confirmed: new Set(), agreedMs: undefined }
  }
  const confirmed = new Set(bases.keys())
  return { epoch, before: bases, after: bases, confirmed, agreedMs: -Infinity }
}

/**
 * Begins the next epoch. The bases before are the smaller of the two that were in force, if the
 * change before this one is not complete.
 */
export function nextEpoch(
  epochs: Epochs,
  next: number,
  bases: Bases,
  nowMs: number,
  waitMs: number,
): Epochs {
  const { epoch, before, after, agreedMs } = epochs
  if (next <= epoch) return epochs
  const isComplete = agreedMs !== undefined && nowMs >= agreedMs + waitMs
  const held = new Map(
    [...new Set([...before.keys(), ...after.keys()])].map((region) => [
      region,
      isComplete ? partsIn(after, region) : smaller(before, after, region),
    ]),
  )
  return { epoch: next, before: held, after: bases, confirmed: new Set(), agreedMs: undefined }
}

export function confirmEpoch(epochs: Epochs, region: string, epoch: number, nowMs: number): Epochs {
  if (epoch < epochs.epoch || epochs.confirmed.has(region)) return epochs
  const confirmed = new Set([...epochs.confirmed, region])
  const all = new Set([...epochs.before.keys(), ...epochs.after.keys()])
  const isAgreed = [...all].every((one) => confirmed.has(one))
  return { ...epochs, confirmed, agreedMs: epochs.agreedMs ?? (isAgreed ? nowMs : undefined) }
}

/** The base of a region now. `waitMs` is how long used units can matter, and a margin. */
export function baseAt(epochs: Epochs, region: string, nowMs: number, waitMs: number): number {
  const { before, after, agreedMs } = epochs
  if (agreedMs !== undefined && nowMs >= agreedMs + waitMs) return partsIn(after, region)
  return smaller(before, after, region)
}

function smaller(one: Bases, other: Bases, region: string): number {
  return Math.min(partsIn(one, region), partsIn(other, region))
}

function partsIn(bases: Bases, region: string): number {
  return bases.get(region) ?? 0
}
