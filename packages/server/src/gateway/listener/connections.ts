/**
 * The connections of clients: how many there are and from where, and what all requests of one have
 * in common, which is looked up once.
 */

import { BlockList, isIPv6, type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { ipKey, parseIp } from 'tidegate/http'
import type { GatewaySection } from '../../policy/gateway-section.ts'
import type { ClientCertificate, ClientConnection } from '../message.ts'
import { SendWatch } from './send-watch.ts'

/** A request that has not ended yet. */
export interface LiveRequest {
  end(isAborted: boolean): void
}

/** Stands for the address of a client that has gone before it was read. */
export const UNKNOWN = 'unknown'

export class Connection implements ClientConnection {
  readonly peer: string | undefined
  /** The same, of IPv6 its network. */
  readonly client: string
  readonly forwardedNode: string
  readonly isTrusted: boolean
  readonly isEncrypted: boolean
  wasShed = false
  readonly certificate: ClientCertificate | undefined
  /** Over HTTP/2, where many share it. */
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

  readonly #onRefused: (client: string) => void

  /** `onRefused` is called for each client that has too many connections. */
  constructor(
    { connectionsPerIpMax, ipv6Prefix, trustProxy, timeouts, tls }: GatewaySection,
    onRefused: (client: string) => void,
  ) {
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

  /** To be told of every connection as soon as it is there. */
  add(socket: Socket): void {
    // Whoever speaks the protocol has its own; until then, an error is no reason to crash.
    socket.on('error', () => undefined)
    const { peer, client } = addressOf(socket, this.#ipv6Prefix)
    const count = (this.#countByClient.get(client) ?? 0) + 1
    if (count > this.#perIpMax && !this.#isTrusted(peer)) {
      socket.destroy()
      this.#onRefused(client)
      return
    }
    this.#watches.set(socket, new SendWatch(socket, this.#sendMs))
    this.#countByClient.set(client, count)
    socket.once('close', () => {
      this.#watches.delete(socket)
      this.#leave(client)
    })
  }

  /**
   * The connection of a request by its socket, which is not the raw one where there is TLS. None
   * where nobody can tell from where it is: who resets it before we look has no address any more,
   * and what it had sent must not pass as that of nobody, whom no list and no limit knows.
   */
  of(socket: Socket): Connection | undefined {
    const known = this.#bySocket.get(socket)
    if (known !== undefined) return known
    const address = addressOf(socket, this.#ipv6Prefix)
    if (address.peer === undefined) return undefined
    const connection = new Connection(socket, this.#isTrusted(address.peer), address)
    // One that is over already would be kept for ever.
    if (socket.destroyed) return connection
    this.#bySocket.set(socket, connection)
    socket.once('close', () => this.#bySocket.delete(socket))
    return connection
  }

  /** Disconnects clients that have taken nothing for too long. */
  look(nowMs: number): void {
    for (const [socket, watch] of this.#watches) {
      if (watch.isLate(nowMs)) this.#cutOff(socket)
    }
  }

  destroyAll(): void {
    for (const socket of this.#watches.keys()) socket.destroy()
  }

  /**
   * A reset frees the kernel's send buffer at once, and shows to HTTP/1.0 that the response is not
   * complete. Below TLS, libuv may refuse a reset because it is shutting the connection down; there
   * the missing closing alert shows it.
   */
  #cutOff(socket: Socket): void {
    if (this.#isPlain) socket.resetAndDestroy()
    else socket.destroy()
  }

  #leave(client: string): void {
    const count = this.#countByClient.get(client) ?? 0
    if (count > 1) this.#countByClient.set(client, count - 1)
    else this.#countByClient.delete(client)
  }
}

interface Address {
  readonly peer: string | undefined
  readonly client: string
}

/** In one spelling: an IPv4 that came in as IPv6 is an IPv4. */
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
    names: namesOf(subjectaltname),
    fingerprint: fingerprint256.replaceAll(':', '').toLowerCase(),
  }
}

/** Such as `DNS:a.example, URI:spiffe://b`, of which the values count. */
function namesOf(subjectaltname: string | undefined): string[] {
  if (subjectaltname === undefined) return []
  return subjectaltname.split(', ').map((name) => name.slice(name.indexOf(':') + 1))
}
