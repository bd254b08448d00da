/** A list of addresses and networks, and whether an address belongs to any of them. */

import { groupsOfIp, type IpAddress, masked } from './ip-address.ts'

interface Network {
  readonly groups: readonly number[]
  readonly prefix: number
}

export class IpNetworks {
  readonly #networks: Readonly<Record<IpAddress['family'], Network[]>> = { ipv4: [], ipv6: [] }

  /** Adds all addresses that share the first `prefix` bits. */
  add(ip: IpAddress, prefix: number): void {
    this.#networks[ip.family].push({ groups: masked(groupsOfIp(ip), prefix), prefix })
  }

  /** An IPv4 address belongs to networks of IPv6 as its mapped address, so `::/0` has it. */
  has(ip: IpAddress): boolean {
    const { ipv4, ipv6 } = this.#networks
    const groups = groupsOfIp(ip)
    if (ip.family === 'ipv6') return isIn(groups, ipv6)
    return isIn(groups, ipv4) || (ipv6.length > 0 && isIn([...MAPPED, ...groups], ipv6))
  }
}

/** `::ffff:0:0/96`, https://www.rfc-editor.org/rfc/rfc4291#section-2.5.5.2 */
const MAPPED = [0, 0, 0, 0, 0, 0xffff]

function isIn(groups: readonly number[], networks: readonly Network[]): boolean {
  return networks.some(({ groups: network, prefix }) => startsAs(groups, network, prefix))
}

const GROUP_BITS = 16

function startsAs(one: readonly number[], other: readonly number[], bits: number): boolean {
  for (let at = 0; at * GROUP_BITS < bits; at++) {
    const unused = Math.max(0, (at + 1) * GROUP_BITS - bits)
    if (((one[at] ?? 0) ^ (other[at] ?? 0)) >> unused !== 0) return false
  }
  return true
}
