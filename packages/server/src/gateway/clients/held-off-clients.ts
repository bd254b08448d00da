/**
 * Clients whose connections were closed repeatedly because of an attack. For a time they get no new
 * connection: each would cost a handshake and as many streams as a client may reset.
 */

/** A single one may be a faulty client, and several clients can share an address. */
const OFFENCES_MAX = 3

/** Older offences are forgotten. */
const OFFENCES_WITHIN_MS = 60_000

/** From the last offence. At this rate an attack costs too little to hold clients off longer. */
const HELD_OFF_MS = 30_000

/** About 1 MB. Beyond it, the client with the oldest offence is forgotten. */
const CLIENTS_MAX = 10_000

interface Offences {
  readonly count: number
  readonly lastMs: number
}

export class HeldOffClients {
  readonly #offences = new Map<string, Offences>()

  /** Counts a connection that was closed for an attack. */
  report(client: string, nowMs = performance.now()): void {
    const known = this.#offences.get(client)
    const isRecent = known !== undefined && nowMs - known.lastMs < OFFENCES_WITHIN_MS
    // Deleted first, to keep the map in the order of the last offences.
    this.#offences.delete(client)
    this.#offences.set(client, { count: isRecent ? known.count + 1 : 1, lastMs: nowMs })
    const [oldest] = this.#offences.keys()
    if (this.#offences.size > CLIENTS_MAX && oldest !== undefined) this.#offences.delete(oldest)
  }

  has(client: string, nowMs = performance.now()): boolean {
    if (this.#offences.size === 0) return false
    const known = this.#offences.get(client)
    if (known === undefined || known.count < OFFENCES_MAX) return false
    return nowMs - known.lastMs < HELD_OFF_MS
  }
}
