/**
 * Shares the connections of a listener among addresses, so that one address cannot take all of
 * them: an address gets another connection only while it has fewer than are left free. Alone it
 * gets half of them, the next address half of the rest. An address without a connection is accepted
 * as long as one is free, which keeps probes working.
 */

import type { Server, Socket } from 'node:net'
import { ipKey, parseIp } from 'tidegate/http'

/** Addresses of one IPv6 network count as one: a customer has at least that many. */
const IPV6_PREFIX = 64

/** Call it after all listeners of `connection` are added: they do not see refused connections. */
export function shareConnections(server: Server, connectionsMax: number): void {
  server.maxConnections = connectionsMax
  const shares = new Shares(connectionsMax)
  const listeners = server.listeners('connection')
  server.removeAllListeners('connection')
  server.on('connection', (socket: Socket) => {
    const address = addressOf(socket)
    if (address !== undefined && !shares.take(address)) {
      socket.destroy()
      return
    }
    if (address !== undefined) socket.once('close', () => shares.release(address))
    for (const listener of listeners) listener.call(server, socket)
  })
}

/** Returns undefined for Unix sockets, which have file permissions instead, and after a reset. */
function addressOf({ remoteAddress }: Socket): string | undefined {
  const ip = remoteAddress === undefined ? undefined : parseIp(remoteAddress)
  return ip === undefined ? undefined : ipKey(ip, IPV6_PREFIX)
}

/** Exported for its test. */
export class Shares {
  readonly #max: number
  readonly #counts = new Map<string, number>()
  #total = 0

  constructor(max: number) {
    this.#max = max
  }

  /** Counts a connection. False if the address has its share, and nothing is counted. */
  take(address: string): boolean {
    const count = this.#counts.get(address) ?? 0
    if (count >= this.#max - this.#total) return false
    this.#counts.set(address, count + 1)
    this.#total += 1
    return true
  }

  release(address: string): void {
    const count = this.#counts.get(address) ?? 0
    this.#total -= 1
    if (count > 1) this.#counts.set(address, count - 1)
    else this.#counts.delete(address)
  }
}
