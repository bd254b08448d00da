/**
 * How often a client may do what is rare or useless. It fills up over time, so that a peer that is
 * busy for years is fine, and one that floods is noticed within a moment.
 */
export class Budget {
  readonly #burst: number
  readonly #perSecond: number
  #left: number
  #atMs: number

  constructor(burst: number, perSecond: number) {
    this.#burst = burst
    this.#perSecond = perSecond
    this.#left = burst
    this.#atMs = Date.now()
  }

  /** Whether it was within the budget. */
  take(): boolean {
    if (this.#left < 1) {
      const nowMs = Date.now()
      const gained = (Math.max(0, nowMs - this.#atMs) * this.#perSecond) / 1_000
      this.#left = Math.min(this.#burst, this.#left + gained)
      this.#atMs = nowMs
    }
    this.#left--
    return this.#left >= 0
  }

  /** For useful work of the peer. */
  give(units: number): void {
    this.#left = Math.min(this.#burst, this.#left + units)
  }
}
