/**
 * Limits frames that are rare or need no response. It refills over time: a connection may stay busy
 * for years, and a flood exhausts it within seconds.
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

  /** Returns false if the budget is exhausted. */
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

  /** Adds units, for useful work of the client. */
  add(units: number): void {
    this.#left = Math.min(this.#burst, this.#left + units)
  }
}
