import { expect, it } from 'vitest'
import type { ClientIpOptions } from './client-ip.ts'
import { guardIp } from './guard-ip.ts'

interface Request {
  readonly trusted?: string
  readonly forwarded?: string
}

function ipOf(options: ClientIpOptions, request: Request): string | undefined {
  return guardIp<Request>(options, 'tidegate', {
    remoteAddress: () => '10.0.0.1',
    forwardedFor: ({ forwarded }) => forwarded,
    trustedAddress: ({ trusted }) => trusted,
  })(request)
}

it.each([
  ['192.0.2.1', '192.0.2.1'],
  ['192.0.2.1:443', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['2001:db8:0:1:aaaa::2', '2001:db8:0:1::/64'],
  ['[2001:db8:0:1:aaaa::2]:443', '2001:db8:0:1::/64'],
  ['forged', '10.0.0.1'],
  ['', '10.0.0.1'],
])('takes the address that the framework trusts: %j', (trusted, ip) => {
  expect(ipOf({}, { trusted, forwarded: trusted })).toBe(ip)
})

it('prefers its own trust to that of the framework', () => {
  const request = { trusted: '192.0.2.1', forwarded: '192.0.2.1, 192.0.2.2' }
  expect(ipOf({ trustProxy: 1 }, request)).toBe('192.0.2.2')
  expect(ipOf({ trustProxy: 0 }, request)).toBe('10.0.0.1')
})

it('warns once of a forwarded address while no proxy is trusted', async () => {
  const warnings: Error[] = []
  const onWarning = (warning: Error) => warnings.push(warning)
  process.on('warning', onWarning)
  const forwarded = '192.0.2.1'
  ipOf({}, {})
  ipOf({ trustProxy: 0 }, { forwarded })
  ipOf({}, { forwarded, trusted: forwarded })
  await new Promise(setImmediate)
  expect(warnings).toEqual([])
  for (const _ of [1, 2]) expect(ipOf({}, { forwarded })).toBe('10.0.0.1')
  await new Promise(setImmediate)
  process.off('warning', onWarning)
  expect(warnings).toHaveLength(1)
  expect(warnings[0]).toMatchObject({ name: 'TidegateWarning', code: 'wrong-use' })
  expect(warnings[0]?.message).toContain('Set trustProxy')
})
