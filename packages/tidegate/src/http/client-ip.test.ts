import { describe, expect, it } from 'vitest'
import { TidegateError } from '../errors.ts'
import { type ClientIpOptions, clientIp } from './client-ip.ts'

interface Request {
  readonly peer?: string
  readonly forwarded?: string
}

function ipOf(options: ClientIpOptions, request: Request): string | undefined {
  return clientIp<Request>(options, 'tidegate', {
    remoteAddress: ({ peer }) => peer,
    forwardedFor: ({ forwarded }) => forwarded,
  })(request)
}

describe('the IP of a client', () => {
  it.each([
    [{ peer: '192.0.2.1' }, '192.0.2.1'],
    [{ peer: '::ffff:192.0.2.1', forwarded: '198.51.100.7' }, '192.0.2.1'],
    [{ peer: '2001:db8::1', forwarded: '198.51.100.7' }, '2001:db8::/64'],
    [{ forwarded: '198.51.100.7' }, undefined],
    [{}, undefined],
  ])('is that of the socket where no proxy is trusted: %j', (request, ip) => {
    expect(ipOf({}, request)).toBe(ip)
    expect(ipOf({ trustProxy: 0 }, request)).toBe(ip)
    expect(ipOf({ trustProxy: [] }, request)).toBe(ip)
  })

  const trustProxy = ['10.0.0.0/8', '192.168.1.1', '2001:db8:ffff::/48', '::1', 'fe80::/10']

  it.each([
    // Only a proxy is believed.
    ['192.0.2.1', '198.51.100.7', '192.0.2.1'],
    ['10.0.0.1', undefined, '10.0.0.1'],
    ['10.0.0.1', '', '10.0.0.1'],
    ['10.0.0.1', '192.0.2.1', '192.0.2.1'],
    ['::ffff:10.0.0.1', '192.0.2.1', '192.0.2.1'],
    ['192.168.1.1', '192.0.2.1', '192.0.2.1'],
    ['192.168.1.2', '192.0.2.1', '192.168.1.2'],
    ['2001:db8:ffff:1::1', '192.0.2.1', '192.0.2.1'],
    ['0:0:0:0:0:0:0:1', '192.0.2.1', '192.0.2.1'],
    ['fe80::1%eth0', '192.0.2.1', '192.0.2.1'],
    // From the right, past our own proxies, and not further.
    ['10.0.0.1', '198.51.100.7, 192.0.2.1', '192.0.2.1'],
    ['10.0.0.1', '198.51.100.7,192.0.2.1,10.2.2.2,10.3.3.3', '192.0.2.1'],
    ['10.0.0.1', '10.9.9.9, 192.0.2.1, 10.2.2.2', '192.0.2.1'],
    ['10.0.0.1', '::ffff:192.0.2.1 ,\t::ffff:10.2.2.2 ', '192.0.2.1'],
    ['10.0.0.1', '10.4.4.4, 10.3.3.3', '10.4.4.4'],
    // Ports and zones.
    ['10.0.0.1', '192.0.2.1:4711', '192.0.2.1'],
    ['10.0.0.1', '[2001:db8::1]:4711', '2001:db8::/64'],
    ['10.0.0.1', '[2001:db8::1]', '2001:db8::/64'],
    ['10.0.0.1', '2001:db8::1%eth0', '2001:db8::/64'],
    ['10.0.0.1', '192.0.2.1, [::1]:80', '192.0.2.1'],
    // An entry that is not an address ends the walk at the address before it.
    ['10.0.0.1', 'unknown', '10.0.0.1'],
    ['10.0.0.1', '192.0.2.1, unknown, 10.2.2.2', '10.2.2.2'],
    ['10.0.0.1', '192.0.2.1,', '10.0.0.1'],
    ['10.0.0.1', ',10.2.2.2', '10.2.2.2'],
    ['10.0.0.1', '[2001:db8::1', '10.0.0.1'],
    ['10.0.0.1', '_hidden:80', '10.0.0.1'],
    // Without an address, the socket is not one of the trusted.
    [undefined, '192.0.2.1', undefined],
  ])('behind trusted ranges, %s with %j, is %s', (peer, forwarded, ip) => {
    expect(ipOf({ trustProxy }, request(peer, forwarded))).toBe(ip)
  })

  it.each([
    [1, '10.0.0.1', undefined, '10.0.0.1'],
    [1, '10.0.0.1', '198.51.100.7, 192.0.2.1', '192.0.2.1'],
    [2, '10.0.0.1', '198.51.100.7, 192.0.2.1', '198.51.100.7'],
    [3, '10.0.0.1', '198.51.100.7, 192.0.2.1', '198.51.100.7'],
    [2, '10.0.0.1', 'forged, 192.0.2.1', '192.0.2.1'],
    [1, undefined, '198.51.100.7, 192.0.2.1', '192.0.2.1'],
    [1, undefined, undefined, undefined],
  ])('behind %i proxies, %s with %j, is %s', (trustProxy, peer, forwarded, ip) => {
    expect(ipOf({ trustProxy }, request(peer, forwarded))).toBe(ip)
  })

  it('reads no more of a field than a chain of proxies can have written', () => {
    const forwarded = `192.0.2.1${', 10.1.1.1'.repeat(1000)}`
    expect(ipOf({ trustProxy }, { peer: '10.0.0.1', forwarded })).toBe('10.1.1.1')
  })

  it('is an IPv6 network of the size that was asked for', () => {
    expect(ipOf({ ipv6Prefix: 56 }, { peer: '2001:db8:0:1ff::1' })).toBe('2001:db8:0:100::/56')
  })

  it.each([
    [{ trustProxy: ['10.0.0.0/33'] }, 'tidegate.trustProxy[0]'],
    [{ trustProxy: ['::1', 'loopback'] }, 'tidegate.trustProxy[1]'],
    [{ trustProxy: ['10.0.0.0/'] }, 'tidegate.trustProxy[0]'],
    [{ trustProxy: ['10.0.0.0/8/8'] }, 'tidegate.trustProxy[0]'],
    [{ trustProxy: ['10.0.0.0/-1'] }, 'tidegate.trustProxy[0]'],
    [{ trustProxy: ['2001:db8::/129'] }, 'tidegate.trustProxy[0]'],
    [{ trustProxy: ['::ffff:10.0.0.0/8'] }, 'tidegate.trustProxy[0]'],
    [{ trustProxy: [''] }, 'tidegate.trustProxy[0]'],
    [{ trustProxy: [1] }, 'tidegate.trustProxy[0]'],
    [{ trustProxy: true }, 'tidegate.trustProxy'],
    [{ trustProxy: '10.0.0.0/8' }, 'tidegate.trustProxy'],
    [{ trustProxy: -1 }, 'tidegate.trustProxy'],
    [{ trustProxy: 1.5 }, 'tidegate.trustProxy'],
    [{ trustProxy: 33 }, 'tidegate.trustProxy'],
    [{ ipv6Prefix: 31 }, 'tidegate.ipv6Prefix'],
    [{ ipv6Prefix: 129 }, 'tidegate.ipv6Prefix'],
    [{ ipv6Prefix: '64' }, 'tidegate.ipv6Prefix'],
  ])('refuses %j when it is made', (options, path) => {
    const make = () => ipOf(options as ClientIpOptions, {})
    expect(make).toThrow(TidegateError)
    expect(make).toThrow(expect.objectContaining({ code: 'invalid-option', path }))
  })
})

function request(peer: string | undefined, forwarded: string | undefined): Request {
  return { ...(peer && { peer }), ...(forwarded !== undefined && { forwarded }) }
}
