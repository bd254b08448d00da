/** Addresses that are decided before anything else: by the longest prefix that holds them. */

import { type IpAddress, ipKey, parseIp } from 'tidegate/http'
import type { IpListsSection } from './limits-section.ts'

export type IpVerdict = 'deny' | 'allow' | undefined

type Verdicts = Map<string | number, 'deny' | 'allow'>

/** Of one length of prefix. */
interface Networks {
  readonly bits: number
  readonly verdicts: Verdicts
}

export function compileIpLists(section: IpListsSection): (ip: string | undefined) => IpVerdict {
  const ipv4: Networks[] = []
  const ipv6: Networks[] = []
  // What is denied comes last, so that it wins where both lists have the same entry.
  for (const [list, verdict] of [
    [section.allow, 'allow'],
    [section.deny, 'deny'],
  ] as const) {
    for (const entry of list) add(entry, verdict, ipv4, ipv6)
  }
  if (ipv4.length === 0 && ipv6.length === 0) return () => undefined
  for (const networks of [ipv4, ipv6]) networks.sort((one, other) => other.bits - one.bits)
  return (text) => {
    const ip = text === undefined ? undefined : parseIp(text)
    if (ip === undefined) return undefined
    for (const { bits, verdicts } of ip.family === 'ipv4' ? ipv4 : ipv6) {
      const verdict = verdicts.get(network(ip, bits))
      if (verdict !== undefined) return verdict
    }
    return undefined
  }
}

function add(entry: string, verdict: 'deny' | 'allow', ipv4: Networks[], ipv6: Networks[]): void {
  const [address = '', prefix] = entry.split('/')
  const ip = parseIp(address)
  if (ip === undefined) return
  const bits = prefix === undefined ? (ip.family === 'ipv4' ? 32 : 128) : Number(prefix)
  const list = ip.family === 'ipv4' ? ipv4 : ipv6
  const known = list.find((networks) => networks.bits === bits)
  const networks = known ?? { bits, verdicts: new Map() }
  if (known === undefined) list.push(networks)
  networks.verdicts.set(network(ip, bits), verdict)
}

/** The network of an address, as something to look up. */
function network(ip: IpAddress, bits: number): string | number {
  if (ip.family === 'ipv6') return ipKey(ip, bits)
  let number = 0
  for (const part of ip.text.split('.')) number = number * 256 + Number(part)
  const size = 2 ** (32 - bits)
  return number - (number % size)
}
