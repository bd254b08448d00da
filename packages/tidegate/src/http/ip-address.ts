/**
 * IP addresses, so that one address is one value however it is spelt. IPv4 inside IPv6 (mapped, or
 * NAT64) is the IPv4 that it stands for; otherwise all IPv4 clients would share one masked prefix,
 * or one client would have two budgets.
 */

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

/** The prefix that Node reports for IPv4 clients of a server that listens on `::`. */
const MAPPED = '::ffff:'

export function parseIp(text: string): IpAddress | undefined {
  if (isIPv4(text)) return { family: 'ipv4', text }
  if (text.startsWith(MAPPED) && isIPv4(text.slice(MAPPED.length))) {
    return { family: 'ipv4', text: text.slice(MAPPED.length) }
  }
  const zoneAt = text.indexOf('%')
  const address = zoneAt === -1 ? text : text.slice(0, zoneAt)
  const groups = groupsOf(address)
  if (groups === undefined) return undefined
  return isIpv4Inside(groups)
    ? { family: 'ipv4', text: dotted(groups) }
    : { family: 'ipv6', text: address, groups }
}

/** The bits of the address, as two or eight numbers of 16 bits. */
export function groupsOfIp(ip: IpAddress): readonly number[] {
  return ip.family === 'ipv4' ? ipv4Groups(ip.text) : ip.groups
}

/** The address as a key: an IPv4 itself, an IPv6 as its network, such as `2001:db8:0:1::/64`. */
export function ipKey(ip: IpAddress, ipv6Prefix: number): string {
  if (ip.family === 'ipv4') return ip.text
  return `${canonical(masked(ip.groups, ipv6Prefix))}/${ipv6Prefix}`
}

/** Up to 255, in decimal, without leading zeros: some readers take those for octal numbers. */
const OCTET = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'
const IPV4 = new RegExp(`^${OCTET}(?:\\.${OCTET}){3}$`)

const GROUP = /^[\da-f]{1,4}$/i

/** `ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255` */
const IPV6_LENGTH_MAX = 45

function isIPv4(text: string): boolean {
  return IPV4.test(text)
}

/** Undefined for a text that is not an IPv6 address. */
function groupsOf(address: string): number[] | undefined {
  if (address.length > IPV6_LENGTH_MAX) return undefined
  const gapAt = address.indexOf('::')
  if (gapAt === -1) {
    const groups = groupsIn(address)
    return groups?.length === GROUPS ? groups : undefined
  }
  const before = address.slice(0, gapAt)
  const head = before.includes('.') ? undefined : groupsIn(before)
  const tail = groupsIn(address.slice(gapAt + 2))
  if (head === undefined || tail === undefined) return undefined
  const missing = GROUPS - head.length - tail.length
  return missing < 1 ? undefined : [...head, ...new Array<number>(missing).fill(0), ...tail]
}

/** Groups between colons; the last two may be written as an IPv4 address. */
function groupsIn(part: string): number[] | undefined {
  if (part === '') return []
  const texts = part.split(':')
  const last = texts.at(-1) ?? ''
  const inside = isIPv4(last) ? ipv4Groups(last) : []
  if (inside.length > 0) texts.pop()
  if (!texts.every((text) => GROUP.test(text))) return undefined
  return [...texts.map((text) => Number.parseInt(text, 16)), ...inside]
}

function ipv4Groups(text: string): number[] {
  const [a = 0, b = 0, c = 0, d = 0] = text.split('.').map(Number)
  return [a * 256 + b, c * 256 + d]
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

/** The groups with all bits after the prefix set to 0. */
export function masked(groups: readonly number[], prefix: number): number[] {
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
