/**
 * The connections of clients: how many there are and from where, and what all requests of one have
 * in common, which is looked up once.
 */

import { BlockList, isIPv6, type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { parseIp } from 'tidegate/http'
import type { GatewaySection } from '../../policy/gateway-section.ts'
import type { ClientCertificate, ClientConnection } from '../message.ts'

/** A request that has not ended yet. */
export interface LiveRequest {
  readonly isHeadSent: boolean
  end(isAborted: boolean): void
}

export class Connection implements ClientConnection {
  readonly peer: string | undefined
  readonly forwardedNode: string
  readonly isTrusted: boolean
  readonly isEncrypted: boolean
  readonly certificate: ClientCertificate | undefined
  readonly live = new Set<LiveRequest>()
  /** Whether the rest of a body is read only to be thrown away. */
  isDiscarding = false

  constructor(socket: Socket, isTrusted: boolean, peer: string | undefined) {
    this.peer = peer
    this.forwardedNode = peer === undefined ? 'unknown' : isIPv6(peer) ? `"[${peer}]"` : peer
    this.isTrusted = isTrusted
    this.isEncrypted = socket instanceof TLSSocket
    this.certificate = socket instanceof TLSSocket ? certificateOf(socket) : undefined
    // Responses that never got their turn on the connection hear of its end from nobody else.
    socket.once('close', () => {
      for (const request of this.live) request.end(true)
    })
  }
}

export class Connections {
  readonly #sockets = new Set<Socket>()
  readonly #countByPeer = new Map<string, number>()
  readonly #bySocket = new WeakMap<object, Connection>()
  readonly #perIpMax: number
  readonly #isTrusted: (peer: string | undefined) => boolean

  constructor({ connectionsPerIpMax, trustProxy }: GatewaySection) {
    this.#perIpMax = connectionsPerIpMax
    this.#isTrusted = trustBy(trustProxy)
  }

  get count(): number {
    return this.#sockets.size
  }

  /** To be told of every connection as soon as it is there. */
  add(socket: Socket): void {
    // Whoever speaks the protocol has its own; until then, an error is no reason to crash.
    socket.on('error', () => undefined)
    const peer = peerOf(socket)
    const count = (peer === undefined ? 0 : (this.#countByPeer.get(peer) ?? 0)) + 1
    if (count > this.#perIpMax && !this.#isTrusted(peer)) {
      socket.destroy()
      return
    }
    this.#sockets.add(socket)
    if (peer !== undefined) this.#countByPeer.set(peer, count)
    socket.once('close', () => {
      this.#sockets.delete(socket)
      if (peer !== undefined) this.#leave(peer)
    })
  }

  /** The connection of a request by its socket, which is not the raw one where there is TLS. */
  of(socket: Socket): Connection {
    const known = this.#bySocket.get(socket)
    if (known !== undefined) return known
    const peer = peerOf(socket)
    const connection = new Connection(socket, this.#isTrusted(peer), peer)
    this.#bySocket.set(socket, connection)
    return connection
  }

  destroyAll(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  #leave(peer: string): void {
    const count = this.#countByPeer.get(peer) ?? 0
    if (count > 1) this.#countByPeer.set(peer, count - 1)
    else this.#countByPeer.delete(peer)
  }
}

/** In one spelling: an IPv4 that came in as IPv6 is an IPv4. */
function peerOf(socket: Socket): string | undefined {
  const { remoteAddress } = socket
  return remoteAddress === undefined ? undefined : parseIp(remoteAddress)?.text
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
