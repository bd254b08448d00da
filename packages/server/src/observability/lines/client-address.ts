/** Addresses of clients as the access log has them: raw, without their last bits, or as digests. */

import { ipKey, parseIp } from 'tidegate/http'
import type { Digest } from '../digests.ts'

export const addressModes = ['raw', 'truncated', 'digest'] as const

export type AddressMode = (typeof addressModes)[number]

export type ClientAddress = (ip: string | undefined) => string | undefined

/** The network of a site: https://www.rfc-editor.org/rfc/rfc6177 */
const IPV6_PREFIX = 48

/** Addresses are mostly those of few clients. About 100 KB. */
const KNOWN_MAX = 1_024

export function clientAddress(mode: AddressMode, digest: Digest): ClientAddress {
  if (mode === 'raw') return (ip) => ip
  if (mode === 'digest') return (ip) => (ip === undefined ? undefined : digest(ip))
  const known = new Map<string, string | undefined>()
  return (ip) => {
    if (ip === undefined) return undefined
    const found = known.get(ip)
    if (found !== undefined) return found
    const cut = truncated(ip)
    if (known.size >= KNOWN_MAX) known.clear()
    known.set(ip, cut)
    return cut
  }
}

/** `203.0.113.0` of `203.0.113.7`, and `2001:db8:1::` of `2001:db8:1:2::3`. */
function truncated(ip: string): string | undefined {
  const parsed = parseIp(ip)
  if (parsed === undefined) return undefined
  if (parsed.family === 'ipv4') return parsed.text.replace(/\d+$/, '0')
  return ipKey(parsed, IPV6_PREFIX).replace(/\/\d+$/, '')
}
