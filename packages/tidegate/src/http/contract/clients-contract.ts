/** The part of the middleware contract about the identity of clients, whatever they claim. */

import { describe, expect, it } from 'vitest'
import { contractClock, type OpenServer, perMinute } from './server-contract.ts'

/** More forged addresses than any limit in the test would let through by mistake. */
const FORGED = 1_000

export function describeClients(open: OpenServer): void {
  describe('clients', () => {
    it('takes a thousand forged X-Forwarded-For of one socket for one client', async () => {
      const client = await open({ limit: perMinute(5), clock: contractClock() })
      const forged = (_: unknown, at: number) => `X-Forwarded-For: 10.${at >> 8}.${at & 255}.1`
      const statuses = await pipelined(client.url, Array.from({ length: FORGED }, forged))
      expect(statuses.filter((status) => status === 200)).toHaveLength(5)
      expect(statuses.filter((status) => status === 429)).toHaveLength(FORGED - 5)
    })

    it('believes a proxy that is trusted by its range, and no further', async () => {
      const trustProxy = ['127.0.0.0/8', '10.0.0.0/8']
      const client = await open({ limit: perMinute(1), trustProxy, clock: contractClock() })
      const from = (forwarded: string) => client.statuses(1, { 'x-forwarded-for': forwarded })
      expect(await from('192.0.2.1')).toEqual([200])
      expect(await from('198.51.100.7, 192.0.2.1')).toEqual([429])
      expect(await from('192.0.2.1, 10.1.2.3')).toEqual([429])
      expect(await from('192.0.2.2, 10.1.2.3')).toEqual([200])
    })

    it('believes a number of proxies', async () => {
      const client = await open({ limit: perMinute(1), trustProxy: 2, clock: contractClock() })
      const from = (forwarded: string) => client.statuses(1, { 'x-forwarded-for': forwarded })
      expect(await from('192.0.2.1, 10.1.2.3')).toEqual([200])
      expect(await from('forged, 192.0.2.1, 10.9.9.9')).toEqual([429])
      expect(await from('192.0.2.2, 10.1.2.3')).toEqual([200])
    })

    it('takes IPv6 clients of one network for one client', async () => {
      const client = await open({ limit: perMinute(1), trustProxy: 1, clock: contractClock() })
      const from = (forwarded: string) => client.statuses(1, { 'x-forwarded-for': forwarded })
      expect(await from('2001:db8:0:1::1')).toEqual([200])
      expect(await from('[2001:db8:0:1:aaaa::2]:443')).toEqual([429])
      expect(await from('2001:db8:0:2::1')).toEqual([200])
    })
  })
}

/** The statuses of requests that are sent through one socket without waiting for answers. */
async function pipelined(url: string, fields: readonly string[]): Promise<number[]> {
  // Not imported at the top: a test runner in an edge runtime could not load the other suites.
  const { connect } = await import('node:net')
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  const requests = fields.map((field) => `GET / HTTP/1.1\r\nHost: localhost\r\n${field}\r\n\r\n`)
  const last = 'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
  let text = ''
  socket.setEncoding('latin1').on('data', (chunk) => {
    text += chunk
  })
  socket.write(requests.join('') + last)
  await new Promise((resolve) => socket.once('close', resolve))
  return Array.from(text.matchAll(/HTTP\/1\.1 (\d{3}) /g), ([, status]) => Number(status)).slice(
    0,
    -1,
  )
}
