/**
 * The IP address of the client. By default that is the peer of the socket and nothing that the
 * client wrote. `X-Forwarded-For` counts only as far as trusted proxies wrote it: it is read from
 * the right, where the nearest proxy appends, and never from the left, where a client can put
 * whatever it likes.
 */

import { invalid } from '../errors.ts'
import { checkWhole } from '../options.ts'
import { type IpAddress, ipKey, parseIp } from './ip-address.ts'
import { IpNetworks } from './ip-networks.ts'

export interface ClientIpOptions {
  /**
   * Addresses and CIDRs of the proxies in front, or how many they are. Default: none; in a
   * middleware, the setting of its framework.
   */
  readonly trustProxy?: readonly string[] | number
  /** Bits of an IPv6 address that identify a client. Default: 64, the smallest customer network. */
  readonly ipv6Prefix?: number
}

/** Where the addresses are in a request. */
export interface AddressSource<Request> {
  /** The peer of the socket; undefined for a unix socket and after the socket was closed. */
  remoteAddress(request: Request): string | undefined
  /** The `X-Forwarded-For` field, several joined by commas. */
  forwardedFor(request: Request): string | undefined
}

/** The client's address as a key; undefined if the request has none. */
export type ClientIp<Request> = (request: Request) => string | undefined

const IPV6_PREFIX_DEFAULT = 64

/** Below this, a prefix would be that of a whole provider. */
const IPV6_PREFIX_MIN = 32

/** Real chains have fewer than ten proxies; a longer field is an attack on the time to read it. */
const HOPS_MAX = 32

/** Picks the client out of the peer and the forwarded addresses, nearest first. */
type Pick = (
  peer: IpAddress | undefined,
  forwarded: () => Iterable<IpAddress>,
) => IpAddress | undefined

export function clientIp<Request>(
  options: ClientIpOptions,
  path: string,
  source: AddressSource<Request>,
): ClientIp<Request> {
  const { ipv6Prefix = IPV6_PREFIX_DEFAULT, trustProxy = 0 } = options
  checkWhole(ipv6Prefix, `${path}.ipv6Prefix`, IPV6_PREFIX_MIN, 128)
  const pick = pickBy(trustProxy, `${path}.trustProxy`)
  return (request) => {
    const remoteAddress = source.remoteAddress(request)
    const peer = remoteAddress === undefined ? undefined : parseIp(remoteAddress)
    const client = pick(peer, () => nearestFirst(source.forwardedFor(request)))
    return client === undefined ? undefined : ipKey(client, ipv6Prefix)
  }
}

function pickBy(trustProxy: readonly string[] | number, path: string): Pick {
  if (Array.isArray(trustProxy)) return firstOutside(trustedList(trustProxy, path))
  if (typeof trustProxy !== 'number') throw badProxy(path, trustProxy)
  const hops = checkWhole(trustProxy, path, 0, HOPS_MAX)
  return hops === 0 ? (peer) => peer : afterHops(hops)
}

/** The nearest address that is not a trusted proxy; the furthest one if all are. */
function firstOutside(trusted: IpNetworks): Pick {
  return (peer, forwarded) => {
    if (peer === undefined || !trusted.has(peer)) return peer
    let client = peer
    for (const ip of forwarded()) {
      client = ip
      if (!trusted.has(ip)) break
    }
    return client
  }
}

/** The address that the proxy at that distance saw; the socket's peer is the first proxy. */
function afterHops(hops: number): Pick {
  return (peer, forwarded) => {
    let client = peer
    let hopsLeft = hops
    for (const ip of forwarded()) {
      client = ip
      hopsLeft -= 1
      if (hopsLeft === 0) break
    }
    return client
  }
}

/** Ends at the first entry that is not an address: entries to the left of it are not trusted. */
function* nearestFirst(field: string | undefined): Generator<IpAddress> {
  let end = field?.length ?? -1
  for (let hops = 0; field !== undefined && end >= 0 && hops < HOPS_MAX; hops++) {
    const commaAt = end === 0 ? -1 : field.lastIndexOf(',', end - 1)
    const ip = parseIp(withoutPort(field.slice(commaAt + 1, end).trim()))
    if (ip === undefined) return
    yield ip
    end = commaAt
  }
}

/** `1.2.3.4:99` and `[::1]:99`; a bare IPv6 has more than one colon. */
export function withoutPort(entry: string): string {
  if (entry.startsWith('[')) {
    const closeAt = entry.indexOf(']')
    return closeAt === -1 ? entry : entry.slice(1, closeAt)
  }
  const colonAt = entry.indexOf(':')
  return colonAt !== -1 && colonAt === entry.lastIndexOf(':') ? entry.slice(0, colonAt) : entry
}

function trustedList(entries: readonly unknown[], path: string): IpNetworks {
  const list = new IpNetworks()
  for (const [at, entry] of entries.entries()) {
    if (typeof entry !== 'string') throw badProxy(`${path}[${at}]`, entry)
    addTrusted(list, entry, `${path}[${at}]`)
  }
  return list
}

function addTrusted(list: IpNetworks, entry: string, path: string): void {
  const [address = '', prefix, ...rest] = entry.split('/')
  const ip = parseIp(address)
  if (ip === undefined || rest.length > 0) throw badProxy(path, entry)
  const bits = ip.family === 'ipv4' ? 32 : 128
  if (prefix === undefined) {
    list.add(ip, bits)
    return
  }
  // The prefix of an IPv4 that is written as IPv6 would count other bits than ours.
  const isPlain = address.includes(':') === (ip.family === 'ipv6')
  if (!isPlain || !/^\d{1,3}$/.test(prefix) || Number(prefix) > bits) throw badProxy(path, entry)
  list.add(ip, Number(prefix))
}

function badProxy(path: string, value: unknown) {
  const allowed = `addresses and CIDRs such as ['10.0.0.0/8', '::1'], or how many proxies there are`
  return invalid('invalid-option', { path, value, allowed })
}
