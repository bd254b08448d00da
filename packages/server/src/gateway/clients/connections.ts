/**
 * The connections of clients: how many there are for each client, and the properties that all
 * requests of a connection share, which are computed once.
 */

import { BlockList, isIPv6, type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { ipKey, parseIp } from 'tidegate/http'
import { alternativeNames } from '../../config/alternative-names.ts'
import type { RefusedConnection } from '../../observability/traffic-events.ts'
import type { GatewaySection } from '../../policy/schema/listener-section.ts'
import type { ClientCertificate, ClientConnection } from '../message.ts'
import type { HeldOffClients } from './held-off-clients.ts'
import { SendWatch } from './send-watch.ts'

/** A request that has not ended yet. */
export interface LiveRequest {
  end(isAborted: boolean): void
}

/** Stands for the address of a client that disconnected before it was read. */
export const UNKNOWN = 'unknown'

export class Connection implements ClientConnection {
  readonly peer: string | undefined
  /** The address of the peer, or its IPv6 network. */
  readonly client: string
  readonly forwardedNode: string
  readonly isTrusted: boolean
  readonly isEncrypted: boolean
  refusals = 0
  holdMs = 0
  readonly certificate: ClientCertificate | undefined
  /** The open requests over HTTP/2, where several share a connection. */
  readonly live = new Set<LiveRequest>()

  constructor(socket: Socket, isTrusted: boolean, { peer, client }: Address) {
    this.peer = peer
    this.client = client
    this.forwardedNode = peer === undefined ? UNKNOWN : isIPv6(peer) ? `"[${peer}]"` : peer
    this.isTrusted = isTrusted
    this.isEncrypted = socket instanceof TLSSocket
    this.certificate = socket instanceof TLSSocket ? certificateOf(socket) : undefined
    socket.once('close', () => {
      for (const request of this.live) request.end(true)
    })
  }
}

export class Connections {
  readonly #watches = new Map<Socket, SendWatch>()
  readonly #countByClient = new Map<string, number>()
  readonly #bySocket = new Map<Socket, Connection>()
  readonly #perIpMax: number
  readonly #sendMs: number
  readonly #isPlain: boolean
  readonly #ipv6Prefix: number
  readonly #isTrusted: (peer: string | undefined) => boolean

  readonly #heldOff: HeldOffClients
  readonly #onRefused: (reason: RefusedConnection, client: string) => void

  /** `onRefused` is called for each connection that is closed at once. */
  constructor(
    { connectionsPerIpMax, ipv6Prefix, trustProxy, timeouts, tls }: GatewaySection,
    heldOff: HeldOffClients,
    onRefused: (reason: RefusedConnection, client: string) => void,
  ) {
    this.#heldOff = heldOff
    this.#onRefused = onRefused
    this.#perIpMax = connectionsPerIpMax
    this.#sendMs = timeouts.send
    this.#isPlain = tls === undefined
    this.#ipv6Prefix = ipv6Prefix
    this.#isTrusted = trustBy(trustProxy)
  }

  get count(): number {
    return this.#watches.size
  }

  /** To be called for every new connection. Closes it if its client has too many. */
  add(socket: Socket): void {
    // Until the protocol adds its listener, an error must not crash the process.
    socket.on('error', () => undefined)
    const { peer, client } = addressOf(socket, this.#ipv6Prefix)
    const count = (this.#countByClient.get(client) ?? 0) + 1
    const reason = this.#refusalOf(client, count)
    // A trusted proxy has the connections of many clients.
    if (reason !== undefined && !this.#isTrusted(peer)) {
      socket.destroy()
      this.#onRefused(reason, client)
      return
    }
    this.#watches.set(socket, new SendWatch(socket, this.#sendMs))
    this.#countByClient.set(client, count)
    socket.once('close', () => {
      this.#watches.delete(socket)
      this.#removeOne(client)
    })
  }

  /**
   * Returns the connection of a socket, which is that of TLS if there is TLS. Undefined if the
   * client has reset it, because its address is lost then: its requests must not be served without
   * an address, as lists and limits could not identify the client.
   */
  of(socket: Socket): Connection | undefined {
    const known = this.#bySocket.get(socket)
    if (known !== undefined) return known
    const address = addressOf(socket, this.#ipv6Prefix)
    if (address.peer === undefined) return undefined
    const connection = new Connection(socket, this.#isTrusted(address.peer), address)
    // A closed one would be kept forever.
    if (socket.destroyed) return connection
    this.#bySocket.set(socket, connection)
    socket.once('close', () => this.#bySocket.delete(socket))
    return connection
  }

  /** Disconnects clients that have taken no bytes for too long. */
  checkTimeouts(nowMs: number): void {
    for (const [socket, watch] of this.#watches) {
      if (watch.isLate(nowMs)) this.#reset(socket)
    }
  }

  destroyAll(): void {
    for (const socket of this.#watches.keys()) socket.destroy()
  }

  /**
   * A reset frees the kernel's send buffer at once, and shows an HTTP/1.0 client that the response
   * is incomplete. Below TLS, libuv may refuse a reset during a shutdown; there the missing closing
   * alert shows it.
   */
  #reset(socket: Socket): void {
    if (this.#isPlain) socket.resetAndDestroy()
    else socket.destroy()
  }

  #refusalOf(client: string, count: number): RefusedConnection | undefined {
    if (count > this.#perIpMax) return 'connectionsPerIpMax'
    return this.#heldOff.has(client) ? 'heldOff' : undefined
  }

  #removeOne(client: string): void {
    const count = this.#countByClient.get(client) ?? 0
    if (count > 1) this.#countByClient.set(client, count - 1)
    else this.#countByClient.delete(client)
  }
}

interface Address {
  readonly peer: string | undefined
  readonly client: string
}

/** Returns the address in one spelling: an IPv4 address within IPv6 becomes IPv4. */
function addressOf({ remoteAddress }: Socket, ipv6Prefix: number): Address {
  const ip = remoteAddress === undefined ? undefined : parseIp(remoteAddress)
  return { peer: ip?.text, client: ip === undefined ? UNKNOWN : ipKey(ip, ipv6Prefix) }
}

function trustBy(trustProxy: GatewaySection['trustProxy']): (peer: string | undefined) => boolean {
  if (typeof trustProxy === 'number') return () => trustProxy > 0
  const trusted = new BlockList()
  for (const entry of trustProxy) {
    const [address = '', prefix] = entry.split('/')
    const ip = parseIp(address)
    if (ip === undefined) continue
    if (prefix === undefined) trusted.addAddress(ip.text, ip.family)
    else trusted.addSubnet(ip.text, Number(prefix), ip.family)
  }
  return (peer) => {
    const ip = peer === undefined ? undefined : parseIp(peer)
    return ip !== undefined && trusted.check(ip.text, ip.family)
  }
}

function certificateOf(socket: TLSSocket): ClientCertificate | undefined {
  if (!socket.authorized) return undefined
  const { subject, subjectaltname, fingerprint256 } = socket.getPeerCertificate()
  if (fingerprint256 === undefined) return undefined
  const { CN } = subject
  return {
    commonName: Array.isArray(CN) ? CN[0] : CN,
    names: alternativeNames(subjectaltname ?? ''),
    fingerprint: fingerprint256.replaceAll(':', '').toLowerCase(),
  }
}
