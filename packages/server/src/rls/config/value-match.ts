/**
 * Patterns for values: `*` for any characters, a prefix, or networks. There are no regular
 * expressions: a comparison is linear in the length of the value.
 */

import { type IpAddress, parseIp } from 'tidegate/http'

export type ValueMatch = (value: string) => boolean

/** `*` stands for zero or more characters, anywhere and any number of times. */
export function wildcard(pattern: string): ValueMatch {
  const parts = pattern.split('*')
  const first = parts[0] ?? ''
  const last = parts.at(-1) ?? ''
  const middle = parts.slice(1, -1).filter((part) => part !== '')
  return (value) => {
    if (value.length < first.length + last.length) return false
    if (!value.startsWith(first) || !value.endsWith(last)) return false
    const end = value.length - last.length
    let at = first.length
    for (const part of middle) {
      const found = value.indexOf(part, at)
      if (found < 0 || found + part.length > end) return false
      at = found + part.length
    }
    return true
  }
}

export function prefixMatch(prefix: string): ValueMatch {
  return (value) => value.startsWith(prefix)
}

/** Longer texts are not addresses, and are not parsed. */
const ADDRESS_LENGTH_MAX = 64

/** Returns undefined if one of the texts is not a network. */
export function cidrMatch(texts: readonly string[]): ValueMatch | undefined {
  const networks = texts.map(networkOf)
  if (networks.length === 0 || !networks.every((network) => network !== undefined)) return undefined
  return (value) => {
    if (value.length > ADDRESS_LENGTH_MAX) return false
    // Envoy's masked_remote_address ends in the length of its mask.
    const slashAt = value.indexOf('/')
    const ip = parseIp(slashAt < 0 ? value : value.slice(0, slashAt))
    if (ip === undefined) return false
    const words = wordsOf(ip)
    return networks.some((network) => contains(network, words))
  }
}

interface Network {
  /** Numbers of 16 bits: two of IPv4, eight of IPv6. */
  readonly words: readonly number[]
  readonly masks: readonly number[]
}

const WORD_BITS = 16

function networkOf(text: string): Network | undefined {
  const [address = '', length, ...rest] = text.split('/')
  const ip = parseIp(address)
  if (ip === undefined || rest.length > 0) return undefined
  const words = wordsOf(ip)
  const bits = words.length * WORD_BITS
  if (length !== undefined && !/^\d{1,3}$/.test(length)) return undefined
  const prefix = length === undefined ? bits : Number(length)
  if (prefix > bits) return undefined
  const masks = words.map((_, at) => {
    const own = Math.min(Math.max(prefix - at * WORD_BITS, 0), WORD_BITS)
    return (0xffff << (WORD_BITS - own)) & 0xffff
  })
  return { words, masks }
}

function contains({ words, masks }: Network, address: readonly number[]): boolean {
  if (address.length !== words.length) return false
  for (let at = 0; at < words.length; at++) {
    if ((((words[at] as number) ^ (address[at] as number)) & (masks[at] as number)) !== 0) {
      return false
    }
  }
  return true
}

function wordsOf(ip: IpAddress): readonly number[] {
  if (ip.family === 'ipv6') return ip.groups
  const [a = 0, b = 0, c = 0, d = 0] = ip.text.split('.').map(Number)
  return [a * 256 + b, c * 256 + d]
}
