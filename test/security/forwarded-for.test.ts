/** The address that a client claims does not decide which counter is charged. */

import { randomBytes, randomInt } from 'node:crypto'
import { isIPv6 } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { startTestGateway } from '../e2e/gateway/test-gateway.ts'
import { startRedis } from '../support/servers/redis.ts'
import { pipelined } from './pipelined-client.ts'
import { startProbedGateway } from './probed-gateway.ts'
import { startRecordingUpstream } from './recording-upstream.ts'
import { valuesOf } from './request-parser.ts'

const REQUESTS = 10_000
const FEWER_REQUESTS = 2_000
const LIMIT = 20

const perIp = { name: 'client', key: 'ip', limit: LIMIT, per: '1h', algorithm: 'fixedWindow' }

/** A deadline that a machine keeps that stalls, because this test is about decisions. */
const patient = { deadline: '30s' }

const randomIpv4 = () => Array.from(randomBytes(4)).join('.')

const randomIpv6 = (prefix = '') =>
  prefix +
  randomBytes(prefix === '' ? 16 : 8)
    .toString('hex')
    .replaceAll(/....(?=.)/g, '$&:')

const admitted = (statuses: readonly number[]) => statuses.filter((status) => status === 200).length

describe('thousands of forged addresses down one connection', () => {
  const names = ['X-Forwarded-For', 'X-Real-IP', 'X-Client-IP', 'True-Client-IP', 'X_Forwarded_For']

  function forged(): string {
    const one = randomInt(2) === 0 ? randomIpv4() : randomIpv6()
    const node = isIPv6(one) ? `"[${one}]"` : one
    const fields = names.map((name) => `${name}: ${one}`)
    const several = `X-Forwarded-For: ${randomIpv4()}, ${randomIpv6()}`
    const all = [...fields, several, `Forwarded: for=${node};by=${node}`]
    return `GET / HTTP/1.1\r\nHost: a.example\r\n${all.join('\r\n')}\r\n\r\n`
  }

  test('are one client with one counter, and none reaches the upstream', async () => {
    const upstream = await startRecordingUpstream()
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const store = { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`], ...patient }
    const upstreams = { api: { targets: [upstream.url] } }
    const gateway = await startProbedGateway({ store, upstreams, limits: [perIp] })
    const statuses = await pipelined(gateway.port, REQUESTS, forged)
    expect(admitted(statuses)).toBe(LIMIT)
    const keys = (await redis.command('KEYS', '*')) as string[]
    expect(keys.filter((key) => /^tg[\w-]{12}$/.test(key))).toHaveLength(1)
    expect(upstream.requests).toHaveLength(LIMIT)
    for (const request of upstream.requests) {
      expect(valuesOf(request, 'x-forwarded-for')).toEqual(['127.0.0.1'])
      expect(valuesOf(request, 'x-real-ip')).toEqual(['127.0.0.1'])
      expect(valuesOf(request, 'forwarded')).toEqual([expect.stringMatching(/^for=127.0.0.1;host/)])
      expect(valuesOf(request, 'x_forwarded_for')).toEqual([])
    }
  })

  test('are one client also behind a trusted proxy, which appended the real one', async () => {
    const upstream = await startRecordingUpstream()
    const gateway = await startTestGateway({
      gateway: { trustProxy: ['127.0.0.0/8', '10.0.0.0/8'] },
      upstreams: { api: { targets: [upstream.url] } },
      limits: [perIp],
    })
    const statuses = await pipelined(gateway.port, FEWER_REQUESTS, () => {
      const chain = `${randomIpv4()}, ${randomIpv6()}, 203.0.113.7, 10.1.2.3`
      return `GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: ${chain}\r\n\r\n`
    })
    expect(admitted(statuses)).toBe(LIMIT)
    expect(upstream.requests).toHaveLength(LIMIT)
  })
})

describe('addresses that a trusted proxy reports', () => {
  async function start(limits: object[] = [perIp]) {
    const upstream = await startRecordingUpstream()
    const gateway = await startTestGateway({
      gateway: { trustProxy: ['127.0.0.0/8'] },
      upstreams: { api: { targets: [upstream.url] } },
      limits,
    })
    const ask = (count: number, address: () => string) =>
      pipelined(
        gateway.port,
        count,
        () => `GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: ${address()}\r\n\r\n`,
      ).then(admitted)
    return { ask }
  }

  test('are one client for all of a /64', async () => {
    const { ask } = await start()
    expect(await ask(REQUESTS, () => randomIpv6('2001:db8:1:2:'))).toBe(LIMIT)
    expect(await ask(LIMIT + 1, () => randomIpv6('2001:db8:1:3:'))).toBe(LIMIT)
  })

  test('are bounded for all of a /48 by a limit that says so', async () => {
    const wider = { ...perIp, name: 'site', key: { ip: 48 }, limit: LIMIT * 2 }
    const { ask } = await start([perIp, wider])
    const rotated = () => randomIpv6(`2001:db8:1:${randomInt(65_536).toString(16)}:`)
    expect(await ask(FEWER_REQUESTS, rotated)).toBe(LIMIT * 2)
  })

  test.each([
    ['::ffff:198.51.100.9', '198.51.100.9'],
    ['::FFFF:c633:6409', '198.51.100.9'],
    ['0:0:0:0:0:ffff:198.51.100.9', '198.51.100.9'],
    ['198.51.100.9:1234', '198.51.100.9'],
    ['[2001:db8::1]:443', '2001:db8::1'],
    ['2001:DB8:0:0:0:0:0:1', '2001:db8::1'],
    ['2001:0db8:0000:0000:ffff:0000:0000:0001', '2001:db8::1'],
  ])('are one client, spelled %s or %s', async (one, other) => {
    const { ask } = await start()
    expect(await ask(LIMIT, () => one)).toBe(LIMIT)
    expect(await ask(1, () => other)).toBe(0)
  })

  test('are two clients for two IPv4 addresses, also spelled as IPv6', async () => {
    const { ask } = await start()
    expect(await ask(LIMIT + 1, () => '198.51.100.1')).toBe(LIMIT)
    expect(await ask(LIMIT + 1, () => '198.51.100.2')).toBe(LIMIT)
    expect(await ask(LIMIT + 1, () => '::ffff:198.51.100.3')).toBe(LIMIT)
  })

  test('do not make a new client if they are invalid', async () => {
    const { ask } = await start()
    const wrong = ['unknown', '1.2.3', '999.1.1.1', '01.2.3.4', '::1%eth0', 'a b', '0x7f.1', ',,,']
    const counts: number[] = []
    for (const address of wrong) counts.push(await ask(LIMIT, () => address))
    const total = counts.reduce((sum, count) => sum + count, 0)
    expect(total).toBeLessThanOrEqual(LIMIT * 2)
  })
})
