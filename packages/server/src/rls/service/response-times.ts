/** How long answers took, in buckets up to what Envoy waits for. */

export const bucketsMs = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 20, 50, 100] as const

export class ResponseTimes {
  /** How many fell into each bucket and no lower one; the last is for all that took longer. */
  readonly counts = new Float64Array(bucketsMs.length + 1)
  sumMs = 0
  count = 0

  add(tookMs: number): void {
    let at = 0
    while (at < bucketsMs.length && tookMs > (bucketsMs[at] as number)) at++
    this.counts[at] = (this.counts[at] as number) + 1
    this.sumMs += tookMs
    this.count++
  }
}
