/**
 * Slots of a target: a bounded number of requests have a connection, and a bounded number wait for
 * one. A waiter that leaves is removed immediately. Connections go to the client that has fewest;
 * urgent requests go before all others that wait.
 *
 * Clients that keep their connections, such as slow readers, must not take the target away from
 * others. So a client gets another slot only while it has at most a multiple of the free ones: a
 * single client gets its full share, and each further client that share of the rest. With a share
 * of a half, nine clients are needed to hold all of 256. Fast clients do not notice it.
 */

export interface SlotLimits {
  readonly connectionsMax: number
  /** Requests with a connection and waiting requests together. */
  readonly slotsMax: number
  /** The share of a client that is alone: above 0, and 1 for all slots. */
  readonly clientShareMax: number
  readonly waitMsMax: number
}

/** Notified about a slot that has to wait for a connection. */
export interface Waiter {
  onSlot(): void
  onTimeout(): void
}

export interface Slot {
  /** True if it has a connection; otherwise `onSlot` is called when it gets one. */
  readonly isConnected: boolean
  /** Must be called once, whatever happens to the request. */
  release(): void
}

export class ConnectionSlots {
  readonly #limits: SlotLimits
  /** A client may have this multiple of the free slots. */
  readonly #multiple: number
  readonly #clients = new Map<string, Client>()
  /** Clients with waiting requests, in the order of their turns. */
  readonly #turns = new Set<Client>()
  #count = 0
  #connected = 0
  /** The number of waiting urgent requests. */
  #urgentCount = 0

  constructor(limits: SlotLimits) {
    this.#limits = limits
    this.#multiple = limits.clientShareMax / (1 - limits.clientShareMax)
  }

  /** Requests that have a connection or wait for one. */
  get count(): number {
    return this.#count
  }

  /** Requests that have a connection. */
  get connected(): number {
    return this.#connected
  }

  hasRoom(client: string): boolean {
    const free = this.#limits.slotsMax - this.#count
    return free > 0 && this.#isFair(this.#clients.get(client)?.count ?? 0, free)
  }

  take(key: string, waiter: Waiter, isUrgent = false): Slot {
    let client = this.#clients.get(key)
    if (client === undefined) {
      client = new Client(key)
      this.#clients.set(key, client)
    }
    client.count += 1
    this.#count += 1
    const slot = new TakenSlot(waiter, (released) => this.#onRelease(released, client))
    // A request does not overtake waiting requests of its client, unless it is urgent.
    const isFirst = isUrgent ? client.urgent.size === 0 : !client.isWaiting
    if (isFirst && this.#mayConnect(client)) {
      this.#connect(client, slot)
    } else {
      if (isUrgent) this.#urgentCount += 1
      const queue = isUrgent ? client.urgent : client.waiting
      queue.add(slot)
      this.#turns.add(client)
      slot.wait(this.#limits.waitMsMax)
    }
    return slot
  }

  #mayConnect(client: Client): boolean {
    const free = this.#limits.connectionsMax - this.#connected
    return free > 0 && this.#isFair(client.connected, free)
  }

  #isFair(held: number, free: number): boolean {
    return held <= free * this.#multiple
  }

  #connect(client: Client, slot: TakenSlot): void {
    client.connected += 1
    this.#connected += 1
    slot.connect()
  }

  #onRelease(slot: TakenSlot, client: Client): void {
    this.#count -= 1
    client.count -= 1
    if (client.count === 0) this.#clients.delete(client.key)
    if (slot.isConnected) {
      client.connected -= 1
      this.#connected -= 1
    } else {
      this.#remove(client, slot)
      if (!client.isWaiting) this.#turns.delete(client)
    }
    if (this.#turns.size > 0) this.#startWaiting()
  }

  #startWaiting(): void {
    for (;;) {
      const client = this.#nextClient()
      const slot = client?.first
      if (client === undefined || slot === undefined) return
      this.#remove(client, slot)
      // The next turn of this client comes after all others.
      this.#turns.delete(client)
      if (client.isWaiting) this.#turns.add(client)
      this.#connect(client, slot)
      slot.waiter.onSlot()
    }
  }

  #remove(client: Client, slot: TakenSlot): void {
    if (client.urgent.delete(slot)) this.#urgentCount -= 1
    else client.waiting.delete(slot)
  }

  /**
   * No client is forgotten: a client that may not connect now has connections, and this is called
   * again when it releases one.
   */
  #nextClient(): Client | undefined {
    let found: Client | undefined
    for (const client of this.#turns) {
      if (!this.#mayConnect(client)) continue
      if (found === undefined || client.goesBefore(found)) found = client
      if (found.connected === 0 && (found.urgent.size > 0 || this.#urgentCount === 0)) return found
    }
    return found
  }
}

class Client {
  readonly key: string
  count = 0
  connected = 0
  readonly urgent = new Set<TakenSlot>()
  readonly waiting = new Set<TakenSlot>()

  constructor(key: string) {
    this.key = key
  }

  get isWaiting(): boolean {
    return this.urgent.size > 0 || this.waiting.size > 0
  }

  get first(): TakenSlot | undefined {
    const [slot] = this.urgent.size > 0 ? this.urgent : this.waiting
    return slot
  }

  goesBefore(other: Client): boolean {
    const isUrgent = this.urgent.size > 0
    if (isUrgent !== other.urgent.size > 0) return isUrgent
    return this.connected < other.connected
  }
}

class TakenSlot implements Slot {
  readonly waiter: Waiter
  readonly #onReleased: (slot: TakenSlot) => void
  isConnected = false
  #isReleased = false
  #timer: NodeJS.Timeout | undefined

  constructor(waiter: Waiter, onReleased: (slot: TakenSlot) => void) {
    this.waiter = waiter
    this.#onReleased = onReleased
  }

  wait(msMax: number): void {
    this.#timer = setTimeout(() => this.waiter.onTimeout(), msMax)
  }

  connect(): void {
    this.isConnected = true
    if (this.#timer !== undefined) clearTimeout(this.#timer)
  }

  release(): void {
    if (this.#isReleased) return
    this.#isReleased = true
    if (this.#timer !== undefined) clearTimeout(this.#timer)
    this.#onReleased(this)
  }
}
