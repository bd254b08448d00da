/** Blocks of addresses: the address itself, then the longest network that contains it. */

import { ipKey, parseIp } from 'tidegate/http'
import type { Now } from '../compile/document-overrides.ts'
import type { LiveBlock } from './live-entries.ts'
import { holding, type Places, place } from './placed.ts'

/** The networks of one prefix length. */
interface Networks<Key> {
  readonly bits: number
  /** Selects the network of an IPv4 address as a number. */
  readonly mask: number
  readonly blocks: Places<Key, LiveBlock>
}

const IPV4_BITS = 32
const IPV6_BITS = 128

/** The first 16 bits of an address, of either family. A bit for each takes 16 KB. */
const COARSE_BITS = 16
const COARSE_IPV6 = 2 ** COARSE_BITS

/** As long as `0.0.0.0`. */
const IPV4_LENGTH_MIN = 7

const DOT = 0x2e
const DIGIT_0 = 0x30
const DIGIT_9 = 0x39
const COLON = 0x3a
const LETTER_A = 0x61

export class AddressBlocks {
  /** The longest prefix first: a single address is a network of 32 or 128 bits. */
  readonly #ipv4: Networks<number>[] = []
  readonly #ipv6: Networks<string>[] = []
  /** Which first 16 bits have a block. Most addresses need no other look-up. */
  readonly #coarse = new Uint8Array((2 * COARSE_IPV6) / 8)
  readonly #now: Now

  constructor(blocks: readonly LiveBlock[], now: Now) {
    this.#now = now
    for (const block of blocks) if (block.kind === 'ip' || block.kind === 'cidr') this.#add(block)
    for (const networks of [this.#ipv4, this.#ipv6]) {
      networks.sort((one, other) => other.bits - one.bits)
    }
  }

  /** `ip` is in its canonical spelling, as in the facts of a request. */
  find(ip: string): LiveBlock | undefined {
    const first = coarseOf(ip)
    if (((this.#coarse[first >>> 3] ?? 0) & (1 << (first & 7))) === 0) return undefined
    return first < COARSE_IPV6 ? this.#inIpv4(ipv4Number(ip)) : this.#inIpv6(ip)
  }

  #inIpv4(number: number): LiveBlock | undefined {
    for (const { mask, blocks } of this.#ipv4) {
      const placed = blocks.get(number & mask)
      const block = placed === undefined ? undefined : holding(placed, this.#now)
      if (block !== undefined) return block
    }
    return undefined
  }

  #inIpv6(ip: string): LiveBlock | undefined {
    const address = parseIp(ip)
    if (address === undefined) return undefined
    for (const { bits, blocks } of this.#ipv6) {
      const placed = blocks.get(ipKey(address, bits))
      const block = placed === undefined ? undefined : holding(placed, this.#now)
      if (block !== undefined) return block
    }
    return undefined
  }

  #add(block: LiveBlock): void {
    const [address = '', prefix] = block.value.split('/')
    const ip = parseIp(address)
    if (ip === undefined) return
    if (ip.family === 'ipv6') {
      const { bits, blocks } = networksOf(this.#ipv6, Number(prefix ?? IPV6_BITS))
      place(blocks, ipKey(ip, bits), block)
      this.#note(coarseOf(ip.text), bits)
      return
    }
    const { bits, mask, blocks } = networksOf(this.#ipv4, Number(prefix ?? IPV4_BITS))
    place(blocks, ipv4Number(ip.text) & mask, block)
    this.#note(coarseOf(ip.text), bits)
  }

  /** A network of fewer than 16 bits covers several. */
  #note(first: number, bits: number): void {
    const count = 2 ** Math.max(0, COARSE_BITS - bits)
    const start = first - (first % count)
    for (let at = start; at < start + count; at++) {
      this.#coarse[at >>> 3] = (this.#coarse[at >>> 3] ?? 0) | (1 << (at & 7))
    }
  }
}

function networksOf<Key>(list: Networks<Key>[], bits: number): Networks<Key> {
  const known = list.find((networks) => networks.bits === bits)
  if (known !== undefined) return known
  // A shift by 32 changes nothing, so that networks of 0 bits need their own case.
  const mask = bits === 0 ? 0 : -1 << (IPV4_BITS - bits)
  const networks: Networks<Key> = { bits, mask, blocks: new Map() }
  list.push(networks)
  return networks
}

/** The first 16 bits, and 65,536 more for IPv6. */
function coarseOf(ip: string): number {
  const ipv4 = ip.length < IPV4_LENGTH_MIN ? -1 : coarseIpv4(ip)
  return ipv4 >= 0 ? ipv4 : coarseIpv6(ip)
}

/**
 * The first two numbers of an IPv4 address; -1 for IPv6. Every request comes here, so that it has
 * neither a loop nor strings.
 */
function coarseIpv4(ip: string): number {
  let first = ip.charCodeAt(0) - DIGIT_0
  let at = 1
  let code = ip.charCodeAt(1)
  if (code !== DOT) {
    first = first * 10 + code - DIGIT_0
    at = 2
    code = ip.charCodeAt(2)
    if (code !== DOT) {
      first = first * 10 + code - DIGIT_0
      at = 3
      if (ip.charCodeAt(3) !== DOT) return -1
    }
  }
  let second = ip.charCodeAt(at + 1) - DIGIT_0
  code = ip.charCodeAt(at + 2)
  if (code === DOT) return (first << 8) | second
  second = second * 10 + code - DIGIT_0
  code = ip.charCodeAt(at + 3)
  return (first << 8) | (code === DOT ? second : second * 10 + code - DIGIT_0)
}

/** The digits until the first colon; none of them are 0. */
function coarseIpv6(ip: string): number {
  let bits = 0
  for (let at = 0; at < ip.length; at++) {
    const code = ip.charCodeAt(at)
    if (code === COLON) break
    bits = (bits << 4) | (code <= DIGIT_9 ? code - DIGIT_0 : (code | 0x20) - LETTER_A + 10)
  }
  return COARSE_IPV6 | (bits & 0xffff)
}

/** The 32 bits of an IPv4 address. */
function ipv4Number(ip: string): number {
  let number = 0
  let part = 0
  for (let at = 0; at < ip.length; at++) {
    const code = ip.charCodeAt(at)
    if (code === DOT) {
      number = (number << 8) | part
      part = 0
    } else part = part * 10 + (code - DIGIT_0)
  }
  return (number << 8) | part
}
