import { isIPv4, isIPv6 } from 'node:net'
import { describe, expect, it } from 'vitest'
import { fc } from '../../../../test/support/fast-check.ts'
import { ipKey, parseIp } from './ip-address.ts'

function keyOf(text: string, ipv6Prefix = 64): string | undefined {
  const ip = parseIp(text)
  return ip === undefined ? undefined : ipKey(ip, ipv6Prefix)
}

describe('an IP address as a key', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['0.0.0.0', '0.0.0.0'],
    ['255.255.255.255', '255.255.255.255'],
    // IPv4-mapped, in every spelling.
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::FFFF:192.0.2.1', '192.0.2.1'],
    ['::ffff:c000:201', '192.0.2.1'],
    ['::ffff:c000:0201', '192.0.2.1'],
    ['0:0:0:0:0:ffff:192.0.2.1', '192.0.2.1'],
    ['0000:0000:0000:0000:0000:FFFF:C000:0201', '192.0.2.1'],
    ['::0:ffff:192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1%eth0', '192.0.2.1'],
    // NAT64.
    ['64:ff9b::192.0.2.1', '192.0.2.1'],
    ['64:ff9b::c000:201', '192.0.2.1'],
    ['0064:FF9B:0:0:0:0:192.0.2.1', '192.0.2.1'],
    // Neighbours of the two, which are IPv6.
    ['64:ff9b:1::c000:201', '64:ff9b:1::/64'],
    ['::fffe:c000:201', '::/64'],
    ['1::ffff:c000:201', '1::/64'],
    ['::192.0.2.1', '::/64'],
    // IPv6 by its network.
    ['2001:db8:0:1::1', '2001:db8:0:1::/64'],
    ['2001:DB8:0:1:aaaa:bbbb:cccc:dddd', '2001:db8:0:1::/64'],
    ['2001:0db8:0000:0001:0000:0000:0000:0001', '2001:db8:0:1::/64'],
    ['2001:db8:1:2:3:4:5.6.7.8', '2001:db8:1:2::/64'],
    ['2001:db8::', '2001:db8::/64'],
    ['::1', '::/64'],
    ['fe80::1%eth0', 'fe80::/64'],
    ['1:2:3:4:5:6:7::', '1:2:3:4::/64'],
    ['::2:3:4:5:6:7:8', '0:2:3:4::/64'],
  ])('is the same for every spelling: %s', (text, key) => {
    expect(keyOf(text)).toBe(key)
  })

  it.each([
    [32, '2001:db8::/32'],
    [48, '2001:db8:abcd::/48'],
    [56, '2001:db8:abcd:1200::/56'],
    [60, '2001:db8:abcd:1230::/60'],
    [63, '2001:db8:abcd:1234::/63'],
    [64, '2001:db8:abcd:1235::/64'],
    [65, '2001:db8:abcd:1235:8000::/65'],
    [127, '2001:db8:abcd:1235:ffff:0:1:fffe/127'],
    [128, '2001:db8:abcd:1235:ffff:0:1:ffff/128'],
  ])('is cut to %i bits', (ipv6Prefix, key) => {
    expect(keyOf('2001:db8:abcd:1235:ffff:0:1:ffff', ipv6Prefix)).toBe(key)
  })

  it.each([
    ['1:0:0:2:0:0:0:3', '1:0:0:2::3/128'],
    ['1:0:0:2:3:0:0:4', '1::2:3:0:0:4/128'],
    ['1:0:2:3:4:5:6:7', '1:0:2:3:4:5:6:7/128'],
    ['::', '::/128'],
    ['::1', '::1/128'],
    ['1::', '1::/128'],
  ])('shortens the longest run of zeros, the first of equals: %s', (text, key) => {
    expect(keyOf(text, 128)).toBe(key)
  })

  it.each([
    '',
    'localhost',
    '1.2.3',
    '01.2.3.4',
    '256.0.0.1',
    '0x7f.0.0.1',
    '1.2.3.4%eth0',
    ' 1.2.3.4',
    '1.2.3.4:80',
    '[::1]',
    '1::2::3',
    '12345::',
    '::ffff:1.2.3.400',
    'unknown',
  ])('is none: %j', (text) => {
    expect(parseIp(text)).toBeUndefined()
  })

  it('is the same for an address and for what is written of it', () => {
    const groups = fc.array(fc.oneof(fc.constant(0), fc.nat(0xffff)), {
      minLength: 8,
      maxLength: 8,
    })
    fc.assert(
      fc.property(groups, (numbers) => {
        const text = numbers.map((number) => number.toString(16).padStart(4, '0')).join(':')
        const key = keyOf(text, 128)
        expect(key).toBeDefined()
        expect(keyOf(key?.replace('/128', '') ?? '', 128)).toBe(key)
      }),
    )
  })

  it('is what Node.js takes for one', () => {
    const piece = fc.constantFrom(
      ...['0', '1', '9', '10', '25', '255', '256', '00', '01', 'f', 'ffff', 'FFFF', 'g', '12345'],
      ...[':', ':', ':', '::', '.', '.', '1.2.3.4', '-', ' ', '%'],
    )
    const nearly = fc.array(piece, { maxLength: 16 }).map((pieces) => pieces.join(''))
    const groups = fc.array(fc.constantFrom('0', '1', 'ab', 'ffff', '', '1.2.3.4'), {
      minLength: 6,
      maxLength: 9,
    })
    const octets = fc.array(fc.constantFrom('0', '9', '99', '255', '256', '', '1'), {
      minLength: 3,
      maxLength: 5,
    })
    const texts = fc.oneof(
      nearly,
      groups.map((all) => all.join(':')),
      octets.map((all) => all.join('.')),
    )
    fc.assert(
      fc.property(texts, (text) => {
        // What stands behind a % is the zone, which is not part of the address.
        const isOne = isIPv4(text) || isIPv6(text.split('%')[0] ?? '')
        expect([text, parseIp(text) !== undefined]).toEqual([text, isOne])
      }),
      { numRuns: 20_000 },
    )
  })
})
