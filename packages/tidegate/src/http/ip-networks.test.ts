import { BlockList } from 'node:net'
import { describe, expect, it } from 'vitest'
import { fc } from '../../../../test/support/fast-check.ts'
import { type IpAddress, parseIp } from './ip-address.ts'
import { IpNetworks } from './ip-networks.ts'

/** Few different bits, so that addresses often lie in the networks. */
const octet = fc.constantFrom(0, 1, 10, 127, 128, 254, 255)
const ipv4 = fc.tuple(octet, octet, octet, octet).map((octets) => octets.join('.'))
const group = fc.constantFrom('0', '1', '7fff', '8000', 'fffe', 'ffff', '2001')
const ipv6 = fc.array(group, { minLength: 8, maxLength: 8 }).map((groups) => groups.join(':'))
const network = fc.oneof(fc.tuple(ipv4, fc.nat(32)), fc.tuple(ipv6, fc.nat(128)))

function parsed(text: string): IpAddress {
  const ip = parseIp(text)
  if (ip === undefined) throw new Error(`not an address: ${text}`)
  return ip
}

describe('a list of networks', () => {
  it('has the addresses that BlockList of Node.js has', () => {
    const networks = fc.array(network, { maxLength: 5 })
    fc.assert(
      fc.property(networks, fc.array(fc.oneof(ipv4, ipv6), { minLength: 20 }), (all, addresses) => {
        const ours = new IpNetworks()
        const nodes = new BlockList()
        for (const [text, prefix] of all) {
          const ip = parsed(text)
          // An IPv4 address that is written as IPv6 is an IPv4 address here.
          const bits = Math.min(prefix, ip.family === 'ipv4' ? 32 : 128)
          ours.add(ip, bits)
          nodes.addSubnet(ip.text, bits, ip.family)
        }
        for (const ip of addresses.map(parsed)) {
          expect([ip.text, ours.has(ip)]).toEqual([ip.text, nodes.check(ip.text, ip.family)])
        }
      }),
    )
  })

  it.each([
    ['0.0.0.0', true, false],
    ['::', true, true],
  ])('with %s/0 has IPv4: %s, IPv6: %s', (address, hasIpv4, hasIpv6) => {
    const list = new IpNetworks()
    list.add(parsed(address), 0)
    expect(list.has(parsed('203.0.113.7'))).toBe(hasIpv4)
    expect(list.has(parsed('2001:db8::1'))).toBe(hasIpv6)
  })
})
