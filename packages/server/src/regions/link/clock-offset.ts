/**
 * The offset between two wall clocks and the round trip between them, from pings. The offset is for
 * alarms only: no decision depends on it.
 */

export interface Ping {
  /** The wall clock here when it was sent. */
  readonly sentAt: number
  /** The wall clock there. */
  readonly remote: number
  /** From sending to the answer, by a steady clock. */
  readonly elapsedMs: number
}

/** The fastest of these pings has the smallest error, which is half of its time. */
const PINGS_MAX = 8

export class ClockOffset {
  #pings: Ping[] = []

  add(ping: Ping): void {
    this.#pings.push(ping)
    if (this.#pings.length > PINGS_MAX) this.#pings.shift()
  }

  get roundTripMs(): number | undefined {
    return this.#fastest()?.elapsedMs
  }

  get offsetMs(): number | undefined {
    const ping = this.#fastest()
    return ping && ping.remote - (ping.sentAt + ping.elapsedMs / 2)
  }

  #fastest(): Ping | undefined {
    let fastest: Ping | undefined
    for (const ping of this.#pings) {
      if (fastest === undefined || ping.elapsedMs < fastest.elapsedMs) fastest = ping
    }
    return fastest
  }
}
