/**
 * IP addresses, so that one address is one value however it is spelt. IPv4 inside IPv6 (mapped, or
 * NAT64) is the IPv4 that it stands for; otherwise all IPv4 clients would share one masked prefix,
 * or one client would have two budgets.
 */

import { isIPv4, isIPv6 } from 'node:net'

export type IpAddress = IPv4 | IPv6

interface IPv4 {
  readonly family: 'ipv4'
  readonly text: string
}

interface IPv6 {
  readonly family: 'ipv6'
  readonly text: string
  /** The 16 bytes, as eight numbers of 16 bits. */
  readonly groups: readonly number[]
}

const GROUPS = 8
const GROUP_BITS = 16

/** What Node reports for IPv4 clients of a server that listens on `::`. */
const MAPPED = '::ffff:'

export function parseIp(text: string): IpAddress | undefined {
  if (isIPv4(text)) return { family: 'ipv4', text }
  if (text.startsWith(MAPPED) && isIPv4(text.slice(MAPPED.length))) {
    return { family: 'ipv4', text: text.slice(MAPPED.length) }
  }
  const zoneAt = text.indexOf('%')
  const address = zoneAt === -1 ? text : text.slice(0, zoneAt)
  if (!isIPv6(address)) return undefined
  const groups = groupsOf(address)
  return isIpv4Inside(groups)
    ? { family: 'ipv4', text: dotted(groups) }
    : { family: 'ipv6', text: address, groups }
}

/** The address as a key: an IPv4 itself, an IPv6 as its network, such as `2001:db8:0:1::/64`. */
export function ipKey(ip: IpAddress, ipv6Prefix: number): string {
  if (ip.family === 'ipv4') return ip.text
  return `${canonical(masked(ip.groups, ipv6Prefix))}/${ipv6Prefix}`
}

/** The groups of a text that is known to be an IPv6 address. */
function groupsOf(address: string): number[] {
  const gapAt = address.indexOf('::')
  if (gapAt === -1) return groupsIn(address)
  const head = groupsIn(address.slice(0, gapAt))
  const tail = groupsIn(address.slice(gapAt + 2))
  const zeros = new Array<number>(GROUPS - head.length - tail.length).fill(0)
  return [...head, ...zeros, ...tail]
}

function groupsIn(part: string): number[] {
  if (part === '') return []
  return part.split(':').flatMap((group) => {
    if (!group.includes('.')) return Number.parseInt(group, 16)
    const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number)
    return [a * 256 + b, c * 256 + d]
  })
}

/** `::ffff:0:0/96` (https://www.rfc-editor.org/rfc/rfc4291#section-2.5.5.2) or `64:ff9b::/96`. */
function isIpv4Inside(groups: readonly number[]): boolean {
  const isZero = (from: number, to: number) => groups.slice(from, to).every((group) => group === 0)
  if (groups[5] === 0xffff) return isZero(0, 5)
  // https://www.rfc-editor.org/rfc/rfc6052#section-2.1
  return groups[0] === 0x64 && groups[1] === 0xff9b && isZero(2, 6)
}

function dotted(groups: readonly number[]): string {
  return groups
    .slice(6)
    .flatMap((group) => [group >> 8, group & 0xff])
    .join('.')
}

function masked(groups: readonly number[], prefix: number): number[] {
  return groups.map((group, at) => {
    const kept = Math.min(Math.max(prefix - at * GROUP_BITS, 0), GROUP_BITS)
    return group & (0xffff << (GROUP_BITS - kept)) & 0xffff
  })
}

/** The one recommended spelling: https://www.rfc-editor.org/rfc/rfc5952#section-4 */
function canonical(groups: readonly number[]): string {
  const { start, length } = longestZeros(groups)
  const text = (from: number, to: number) =>
    groups
      .slice(from, to)
      .map((group) => group.toString(16))
      .join(':')
  if (length < 2) return text(0, GROUPS)
  return `${text(0, start)}::${text(start + length, GROUPS)}`
}

function longestZeros(groups: readonly number[]): { start: number; length: number } {
  let longest = { start: 0, length: 0 }
  let length = 0
  for (const [at, group] of groups.entries()) {
    length = group === 0 ? length + 1 : 0
    if (length > longest.length) longest = { start: at - length + 1, length }
  }
  return longest
}
