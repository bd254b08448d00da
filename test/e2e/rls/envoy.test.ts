/** The rate limit service behind a real Envoy, with its counters in a real Redis. */

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort, LOOPBACK } from '../../support/servers/ports.ts'
import { type RedisServer, startRedis } from '../../support/servers/redis.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { until } from '../../support/servers/until.ts'
import {
  envoyBinary,
  type RlsProcess,
  startEnvoy,
  startRlsProcess,
  type TestEnvoy,
} from './envoy.ts'

/** Enough to start Envoy, Redis and the service on a busy machine. */
const SLOW_MS = 120_000

const config = (unitsPerDay: number) => `
domain: shop
descriptors:
  - key: tenant
    rate_limit: { unit: day, requests_per_unit: ${unitsPerDay}, name: by-tenant }
    descriptors:
      - key: path
        value: /a/*
        share_threshold: true
        metadata: { pool: a }
        rate_limit: { unit: day, requests_per_unit: 2 }
  - key: tried
    shadow_mode: true
    rate_limit: { unit: day, requests_per_unit: 1 }
  - key: cost
    rate_limit: { unit: day, requests_per_unit: 10 }
  - key: remote_address
    value_cidr: 127.0.0.0/8
    rate_limit: { unit: day, requests_per_unit: 1, algorithm: token_bucket }
`

// `./run.sh test-envoy` installs Envoy and sets TIDEGATE_ENVOY.
describe.skipIf(envoyBinary === undefined)('behind a real Envoy', () => {
  const folder = makeFolder()
  const directory = join(folder, 'config')
  let redis: RedisServer
  let service: RlsProcess
  let envoy: TestEnvoy
  let port = 0

  const write = (unitsPerDay: number) =>
    writeFileSync(join(directory, 'config.yaml'), config(unitsPerDay))

  beforeAll(async () => {
    mkdirSync(directory)
    write(3)
    redis = await startRedis()
    port = await freePort()
    service = await startRlsProcess(port, directory, {
      REDIS_URL: `${redis.host}:${redis.port}`,
      REDIS_SOCKET_TYPE: 'tcp',
      LIMIT_RESPONSE_HEADERS_ENABLED: 'true',
      LIMIT_RESET_HEADER: 'X-Own-Reset',
      RESPONSE_DYNAMIC_METADATA: 'true',
      // A busy machine must not cause fallback decisions.
      TIDEGATE_DEADLINE: '1s',
    })
    envoy = await startEnvoy(port)
  }, SLOW_MS)

  afterAll(async () => {
    await envoy?.stop()
    await service?.stop()
    await redis?.stop()
    removeFolder(folder)
  }, SLOW_MS)

  const get = (path: string, headers: Record<string, string>, listener: 'open' | 'deny' = 'deny') =>
    fetch(`http://${LOOPBACK}:${envoy.ports[listener]}${path}`, { headers })

  const statuses = async (count: number, path: string, headers: Record<string, string>) => {
    const all: number[] = []
    for (let sent = 0; sent < count; sent++) all.push((await get(path, headers)).status)
    return all
  }

  test('requests over the limit are refused with 429 and do not reach the upstream', async () => {
    const before = envoy.upstreamRequests
    expect(await statuses(5, '/tenant', { 'x-tenant': 'a' })).toEqual([200, 200, 200, 429, 429])
    expect(envoy.upstreamRequests - before).toBe(3)
    expect(await statuses(1, '/tenant', { 'x-tenant': 'b' })).toEqual([200])
  })

  test('requests without a descriptor are not limited', async () => {
    expect(await statuses(5, '/tenant', {})).toEqual([200, 200, 200, 200, 200])
  })

  test('responses have the headers of the service and those that Envoy makes', async () => {
    const { headers, status } = await get('/tenant', { 'x-tenant': 'c' })
    expect(status).toBe(200)
    expect(headers.get('ratelimit-limit')).toBe('3')
    expect(headers.get('ratelimit-remaining')).toBe('2')
    const resetSeconds = Number(headers.get('x-own-reset'))
    expect(resetSeconds).toBeGreaterThan(0)
    expect(resetSeconds).toBeLessThanOrEqual(86_400)
    expect(headers.get('x-ratelimit-limit')).toBe('3, 3;w=86400;name="by-tenant"')
    expect(headers.get('x-ratelimit-remaining')).toBe('2')
    await statuses(2, '/tenant', { 'x-tenant': 'c' })
    const refused = await get('/tenant', { 'x-tenant': 'c' })
    expect(refused.headers.get('x-envoy-ratelimited')).toBe('true')
    expect(refused.headers.get('ratelimit-remaining')).toBe('0')
  })

  test('exactly the limit is admitted of requests at the same time', async () => {
    const all = await Promise.all(
      Array.from({ length: 30 }, async () => (await get('/tenant', { 'x-tenant': 'd' })).status),
    )
    expect(all.filter((status) => status === 200)).toHaveLength(3)
    expect(all.filter((status) => status === 429)).toHaveLength(27)
  })

  test('values of a pattern share one counter, and its metadata reaches Envoy', async () => {
    const first = await get('/path', { 'x-tenant': 'e', 'x-path': '/a/1' })
    expect([first.status, first.headers.get('x-metadata')]).toEqual([200, '{"pool":"a"}'])
    expect(await statuses(2, '/path', { 'x-tenant': 'e', 'x-path': '/a/2' })).toEqual([200, 429])
  })

  test('a rule in shadow mode refuses no request', async () => {
    expect(await statuses(3, '/tried', { 'x-tenant': 'a' })).toEqual([200, 200, 200])
  })

  test('a request can cost more than one', async () => {
    const headers = { 'x-tenant': 'a', 'x-cost': '4' }
    expect(await statuses(3, '/cost', headers)).toEqual([200, 200, 429])
    // The refused request was not charged.
    expect(await statuses(2, '/cost', { ...headers, 'x-cost': '2' })).toEqual([200, 429])
  })

  test('a limit that Envoy brings along goes before the configured one', async () => {
    expect(await statuses(3, '/override', { 'x-tenant': 'a' })).toEqual([200, 200, 429])
  })

  test('an address is limited by its network', async () => {
    expect(await statuses(2, '/address', {})).toEqual([200, 429])
  })

  test('a new configuration applies under traffic, and no request fails', async () => {
    const seen: number[] = []
    let isOver = false
    const traffic = async (tenant: string) => {
      while (!isOver) seen.push((await get('/tenant', { 'x-tenant': tenant })).status)
    }
    const last = (status: number) =>
      seen.length > 8 && seen.slice(-8).every((one) => one === status)
    const running = ['f', 'g', 'h', 'i'].map(traffic)
    await until('all tenants are over', () => last(429))
    write(1_000_000)
    await until('the new limit holds', () => last(200))
    writeFileSync(join(directory, 'config.yaml'), 'domain: [')
    await until('the bad one is refused', () => service.output.includes('configuration refused'))
    const before = seen.length
    await until('requests went on', () => seen.length > before + 20)
    write(3)
    await until('the old limit holds', () => last(429))
    isOver = true
    await Promise.all(running)
    expect(new Set(seen)).toEqual(new Set([200, 429]))
    expect(seen.slice(before, before + 20)).toEqual(Array(20).fill(200))
  })

  test('if the service is killed, Envoy decides, and limits hold when it is back', async () => {
    const seen = { open: [] as number[], deny: [] as number[] }
    let isOver = false
    const traffic = async (listener: 'open' | 'deny', tenant: string) => {
      while (!isOver) {
        seen[listener].push((await get('/tenant', { 'x-tenant': tenant }, listener)).status)
      }
    }
    const last = (listener: 'open' | 'deny', status: number) =>
      seen[listener].length > 5 && seen[listener].slice(-5).every((one) => one === status)
    const running = [traffic('open', 'k'), traffic('deny', 'l')]
    await until('both are over', () => last('open', 429) && last('deny', 429))
    service.kill('SIGKILL')
    await until('failures are decided', () => last('open', 200) && last('deny', 500))
    await service.restart()
    await until('the service decides', () => last('open', 429) && last('deny', 429))
    isOver = true
    await Promise.all(running)
    expect(new Set(seen.open)).toEqual(new Set([200, 429]))
    // Its counters are in Redis: three requests were admitted before the kill, and none after.
    expect(seen.deny.filter((status) => status === 200)).toHaveLength(3)
    expect(new Set(seen.deny)).toEqual(new Set([200, 429, 500]))
  })
})
