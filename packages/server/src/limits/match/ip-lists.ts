/** The allow and deny lists of addresses: the longest prefix that contains an address decides. */

import { type IpAddress, ipKey, parseIp } from 'tidegate/http'
import type { IpListSettings } from '../limit-settings.ts'

export type IpRule = 'deny' | 'allow' | undefined

type Rules = Map<string | number, 'deny' | 'allow'>

/** The networks of one prefix length. */
interface Networks {
  readonly bits: number
  readonly rules: Rules
}

export function compileIpLists(section: IpListSettings): (ip: string | undefined) => IpRule {
  const ipv4: Networks[] = []
  const ipv6: Networks[] = []
  // Denied entries come last, so that they win if both lists have the same entry.
  for (const [list, rule] of [
    [section.allow, 'allow'],
    [section.deny, 'deny'],
  ] as const) {
    for (const entry of list) add(entry, rule, ipv4, ipv6)
  }
  if (ipv4.length === 0 && ipv6.length === 0) return () => undefined
  for (const networks of [ipv4, ipv6]) networks.sort((one, other) => other.bits - one.bits)
  return (text) => {
    const ip = text === undefined ? undefined : parseIp(text)
    if (ip === undefined) return undefined
    for (const { bits, rules } of ip.family === 'ipv4' ? ipv4 : ipv6) {
      const rule = rules.get(network(ip, bits))
      if (rule !== undefined) return rule
    }
    return undefined
  }
}

function add(entry: string, rule: 'deny' | 'allow', ipv4: Networks[], ipv6: Networks[]): void {
  const [address = '', prefix] = entry.split('/')
  const ip = parseIp(address)
  if (ip === undefined) return
  const bits = prefix === undefined ? (ip.family === 'ipv4' ? 32 : 128) : Number(prefix)
  const list = ip.family === 'ipv4' ? ipv4 : ipv6
  const known = list.find((networks) => networks.bits === bits)
  const networks = known ?? { bits, rules: new Map() }
  if (known === undefined) list.push(networks)
  networks.rules.set(network(ip, bits), rule)
}

/** The network of an address, as a key of the map. */
function network(ip: IpAddress, bits: number): string | number {
  if (ip.family === 'ipv6') return ipKey(ip, bits)
  let number = 0
  for (const part of ip.text.split('.')) number = number * 256 + Number(part)
  const size = 2 ** (32 - bits)
  return number - (number % size)
}
