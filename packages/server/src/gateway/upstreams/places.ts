/**
 * Who may use a target: a bounded number of requests have a connection, a bounded number wait for
 * one. A waiter that leaves is removed at once. The others get their turns client by client, first
 * those that have least; urgent requests go before all others that wait.
 *
 * Clients that hold what they have, such as those that read slowly, must not take the target away
 * from others. So a client gets another place as long as it has no more than a multiple of what is
 * left free: alone it gets its full share, and each further one that share of the rest. With a half
 * it takes nine clients to hold all of 256. Where clients are quick this is not felt.
 */

export interface PlaceLimits {
  readonly connectionsMax: number
  /** Of requests with a connection and waiting together. */
  readonly placesMax: number
  /** What one client gets while nobody else is there: above 0, and 1 for everything. */
  readonly clientShareMax: number
  readonly waitMsMax: number
}

/** Told what becomes of a place that has to wait. */
export interface Visitor {
  hasConnection(): void
  hasWaitedTooLong(): void
}

export interface Place {
  /** Whether it has a connection already; if not, its visitor hears of it. */
  readonly isConnected: boolean
  /** To be called once, whatever happens. */
  leave(): void
}

export class Places {
  readonly #limits: PlaceLimits
  /** How many times of what is free a client may have. */
  readonly #multiple: number
  readonly #clients = new Map<string, Client>()
  /** Those with somebody waiting, in the order of their turns. */
  readonly #turns = new Set<Client>()
  #count = 0
  #connected = 0
  /** Urgent requests that wait. */
  #urgentCount = 0

  constructor(limits: PlaceLimits) {
    this.#limits = limits
    this.#multiple = limits.clientShareMax / (1 - limits.clientShareMax)
  }

  get count(): number {
    return this.#count
  }

  hasRoom(client: string): boolean {
    const free = this.#limits.placesMax - this.#count
    return free > 0 && this.#isFair(this.#clients.get(client)?.count ?? 0, free)
  }

  take(key: string, visitor: Visitor, isUrgent = false): Place {
    let client = this.#clients.get(key)
    if (client === undefined) {
      client = new Client(key)
      this.#clients.set(key, client)
    }
    client.count += 1
    this.#count += 1
    const place = new TakenPlace(visitor, (left) => this.#leave(left, client))
    // No request overtakes those of the same client that wait already, unless it is urgent.
    const isFirst = isUrgent ? client.urgent.size === 0 : !client.isWaiting
    if (isFirst && this.#mayConnect(client)) {
      this.#connect(client, place)
    } else {
      if (isUrgent) this.#urgentCount += 1
      const line = isUrgent ? client.urgent : client.waiting
      line.add(place)
      this.#turns.add(client)
      place.wait(this.#limits.waitMsMax)
    }
    return place
  }

  #mayConnect(client: Client): boolean {
    const free = this.#limits.connectionsMax - this.#connected
    return free > 0 && this.#isFair(client.connected, free)
  }

  #isFair(held: number, free: number): boolean {
    return held <= free * this.#multiple
  }

  #connect(client: Client, place: TakenPlace): void {
    client.connected += 1
    this.#connected += 1
    place.connect()
  }

  #leave(place: TakenPlace, client: Client): void {
    this.#count -= 1
    client.count -= 1
    if (client.count === 0) this.#clients.delete(client.key)
    if (place.isConnected) {
      client.connected -= 1
      this.#connected -= 1
    } else {
      this.#remove(client, place)
      if (!client.isWaiting) this.#turns.delete(client)
    }
    if (this.#turns.size > 0) this.#startWaiting()
  }

  #startWaiting(): void {
    for (;;) {
      const client = this.#nextClient()
      const place = client?.first
      if (client === undefined || place === undefined) return
      this.#remove(client, place)
      // Its next turn comes after those of all others.
      this.#turns.delete(client)
      if (client.isWaiting) this.#turns.add(client)
      this.#connect(client, place)
      place.visitor.hasConnection()
    }
  }

  #remove(client: Client, place: TakenPlace): void {
    if (client.urgent.delete(place)) this.#urgentCount -= 1
    else client.waiting.delete(place)
  }

  /**
   * Nobody waits because nobody looks: a client whose turn it is not has connections, and when it
   * leaves one, it is looked at again.
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
  readonly urgent = new Set<TakenPlace>()
  readonly waiting = new Set<TakenPlace>()

  constructor(key: string) {
    this.key = key
  }

  get isWaiting(): boolean {
    return this.urgent.size > 0 || this.waiting.size > 0
  }

  get first(): TakenPlace | undefined {
    const [place] = this.urgent.size > 0 ? this.urgent : this.waiting
    return place
  }

  goesBefore(other: Client): boolean {
    const isUrgent = this.urgent.size > 0
    if (isUrgent !== other.urgent.size > 0) return isUrgent
    return this.connected < other.connected
  }
}

class TakenPlace implements Place {
  readonly visitor: Visitor
  readonly #onLeave: (place: TakenPlace) => void
  isConnected = false
  #isLeft = false
  #timer: NodeJS.Timeout | undefined

  constructor(visitor: Visitor, onLeave: (place: TakenPlace) => void) {
    this.visitor = visitor
    this.#onLeave = onLeave
  }

  wait(msMax: number): void {
    this.#timer = setTimeout(() => this.visitor.hasWaitedTooLong(), msMax)
  }

  connect(): void {
    this.isConnected = true
    if (this.#timer !== undefined) clearTimeout(this.#timer)
  }

  leave(): void {
    if (this.#isLeft) return
    this.#isLeft = true
    if (this.#timer !== undefined) clearTimeout(this.#timer)
    this.#onLeave(this)
  }
}
