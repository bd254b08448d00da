/**
 * Connections that an overload holds: their next request is not read for a while. They are released
 * a few per turn of the event loop. After a pause of the process, such as a garbage collection,
 * thousands are due at once, and reading them all in one turn would make every other request late.
 */

/** Called once, also if the connection was closed meanwhile. */
export type Release = () => void

/** Times are drawn at random and are 50 ms or more, so that they need not be accurate. */
const TICK_MS = 10

/** About 0.5 ms of reading and refusing: as much as a turn has for requests that wait. */
const RELEASED_PER_TURN = 8

export class HeldConnections {
  /** By the tick at which they are due. */
  readonly #held = new Map<number, Release[]>()
  /** Those that are due, in order. */
  #due: Release[] = []
  #at = 0
  #tick = 0
  #timer: NodeJS.Timeout | undefined
  #isScheduled = false

  hold(release: Release, holdMs: number): void {
    if (this.#timer === undefined) {
      this.#tick = tickNow()
      this.#timer = setInterval(this.#onTick, TICK_MS).unref()
    }
    const tick = tickNow() + Math.ceil(holdMs / TICK_MS)
    const others = this.#held.get(tick)
    if (others === undefined) this.#held.set(tick, [release])
    else others.push(release)
  }

  readonly #onTick = () => {
    const nowTick = tickNow()
    while (this.#tick < nowTick && this.#held.size > 0) {
      this.#tick += 1
      const due = this.#held.get(this.#tick)
      if (due === undefined) continue
      this.#held.delete(this.#tick)
      for (const release of due) this.#due.push(release)
    }
    this.#tick = nowTick
    if (!this.#isScheduled) this.#release()
    if (this.#held.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  readonly #release = () => {
    this.#isScheduled = false
    const end = Math.min(this.#due.length, this.#at + RELEASED_PER_TURN)
    while (this.#at < end) this.#due[this.#at++]?.()
    if (this.#at < this.#due.length) {
      this.#isScheduled = true
      setImmediate(this.#release)
    } else {
      this.#due = []
      this.#at = 0
    }
  }
}

function tickNow(): number {
  return Math.floor(performance.now() / TICK_MS)
}
