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

export class AddressBlocks {
  /** The longest prefix first: a single address is a network of 32 or 128 bits. */
  readonly #ipv4: Networks<number>[] = []
  readonly #ipv6: Networks<string>[] = []
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
    const number = ipv4Number(ip)
    if (number === undefined) return this.#inIpv6(ip)
    for (const { mask, blocks } of this.#ipv4) {
      const placed = blocks.get(number & mask)
      const block = placed === undefined ? undefined : holding(placed, this.#now())
      if (block !== undefined) return block
    }
    return undefined
  }

  #inIpv6(ip: string): LiveBlock | undefined {
    const address = this.#ipv6.length === 0 ? undefined : parseIp(ip)
    if (address === undefined) return undefined
    for (const { bits, blocks } of this.#ipv6) {
      const placed = blocks.get(ipKey(address, bits))
      const block = placed === undefined ? undefined : holding(placed, this.#now())
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
      return
    }
    const { mask, blocks } = networksOf(this.#ipv4, Number(prefix ?? IPV4_BITS))
    place(blocks, (ipv4Number(ip.text) ?? 0) & mask, block)
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

/**
 * Reads digits without making strings, because every request comes here. Undefined for an IPv6
 * address.
 */
function ipv4Number(ip: string): number | undefined {
  let number = 0
  let part = 0
  for (let at = 0; at < ip.length; at++) {
    const code = ip.charCodeAt(at)
    if (code === 0x2e) {
      number = (number << 8) | part
      part = 0
    } else if (code >= 0x30 && code <= 0x39) part = part * 10 + (code - 0x30)
    else return undefined
  }
  return (number << 8) | part
}
