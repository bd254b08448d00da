/** A histogram of response times, with buckets up to Envoy's timeouts. */

export const bucketsMs = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 20, 50, 100] as const

export class ResponseTimes {
  /** Calls of each bucket that no lower bucket has; the last one is for all slower calls. */
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
