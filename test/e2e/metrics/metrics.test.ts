/** The page of metrics of a service with all doors: what it counts, and that it stays small. */

import { describe, expect, onTestFinished, test } from 'vitest'
import { regionFamilies } from '../../../packages/server/src/app/regions/open-regions.ts'
import { Prober } from '../../../packages/server/src/probe/prober.ts'
import type { RegionsState } from '../../../packages/server/src/regions/regions.ts'
import { readText } from '../../house/source-file.ts'
import { startRedis } from '../../support/servers/redis.ts'
import { until } from '../../support/servers/until.ts'
import { flood } from './flood.ts'
import { samplesOf, startMeteredService } from './metered-service.ts'

const SERIES_MAX = 2_500

const limits = [
  { name: 'key', key: { header: 'x-key' }, otherwise: 'skip', limit: 2, per: '1h' },
  { name: 'watched', key: 'ip', limit: 1, per: '1h', mode: 'shadow' },
]

/** The value of each outcome of a limit in one door. */
function outcomes(samples: ReadonlyMap<string, number>, door: string, limit: string, mode: string) {
  const of = (outcome: string) => {
    const labels = `door="${door}",limit="${limit}",mode="${mode}",outcome="${outcome}"`
    return samples.get(`tidegate_limit_decisions_total{${labels}}`)
  }
  return { allowed: of('allowed'), denied: of('denied') }
}

describe('on a memory store', () => {
  test('counts decisions of every door by limit, outcome and mode', async () => {
    const service = await startMeteredService({ limits })
    for (let call = 0; call < 3; call++) await service.ask('/', { 'x-key': 'a' })
    for (let call = 0; call < 4; call++) {
      await service.check({ limits: [{ name: 'key', key: ['b'] }] })
    }
    await service.check({ limits: [{ name: 'key', key: ['b'] }], peek: true })
    for (let call = 0; call < 5; call++) await service.askRls({ 'x-key': 'c' })
    const samples = samplesOf(await service.page())
    expect(outcomes(samples, 'gateway', 'key', 'enforce')).toEqual({ allowed: 2, denied: 1 })
    expect(outcomes(samples, 'gateway', 'watched', 'shadow')).toEqual({ allowed: 1, denied: 1 })
    expect(outcomes(samples, 'decision_api', 'key', 'enforce')).toEqual({ allowed: 2, denied: 2 })
    expect(outcomes(samples, 'rls', 'key', 'enforce')).toEqual({ allowed: 2, denied: 3 })
    const total = (door: string, outcome: string) =>
      samples.get(`tidegate_decisions_total{door="${door}",outcome="${outcome}",by="memory"}`)
    expect([total('gateway', 'allowed'), total('gateway', 'denied')]).toEqual([2, 1])
    expect([total('decision_api', 'allowed'), total('decision_api', 'denied')]).toEqual([2, 2])
    expect([total('rls', 'allowed'), total('rls', 'denied')]).toEqual([2, 3])
    const times = 'tidegate_decision_duration_seconds_count{door="decision_api",by="memory"}'
    expect(samples.get(times)).toBe(4)
    expect(samples.get('tidegate_limit_units_total{limit="key"}')).toBe(6)
  })

  test('counts responses by route and status, with the time of the upstream', async () => {
    const routes = [{ match: { path: '/a/**' }, upstream: 'api' }]
    const service = await startMeteredService({ limits, routes })
    await service.ask('/a/1', { 'x-key': 'a' })
    await service.ask('/a/2', { 'x-key': 'a' })
    await service.ask('/a/3', { 'x-key': 'a' })
    await service.ask('/b')
    const samples = samplesOf(await service.page())
    const requests = (route: string, code: number) =>
      samples.get(`tidegate_gateway_requests_total{route="${route}",code="${code}"}`)
    expect([requests('/a/**', 200), requests('none', 429), requests('none', 404)]).toEqual([
      2, 1, 1,
    ])
    const name = 'tidegate_gateway_upstream_duration_seconds_count{upstream="api"}'
    expect(samples.get(name)).toBe(2)
    expect(samples.get('tidegate_gateway_connections')).toBeGreaterThan(0)
    const up = [...samples].filter(([series]) => series.startsWith('tidegate_gateway_target_up'))
    expect(up.map(([, value]) => value)).toEqual([1])
  })

  test('counts a defect in any door as an error, and in a shadow apart', async () => {
    const service = await startMeteredService({ limits })
    const fail = () => {
      throw new TypeError('a defect')
    }
    Object.assign(service.service.store.store, { chargeOne: fail, charge: fail })
    const value = async (name: string) => samplesOf(await service.page()).get(`tidegate_${name}`)
    const counts = async () => [await value('errors_total'), await value('shadow_failures_total')]
    expect(await counts()).toEqual([0, 0])
    expect(await service.ask('/', { 'x-key': 'a' })).toBe(500)
    expect(await counts()).toEqual([1, 0])
    await service.check({ limits: [{ name: 'key', key: ['b'] }] })
    await service.askRls({ 'x-key': 'c' })
    expect(await counts()).toEqual([3, 0])
    expect(await service.ask('/')).toBe(200)
    expect(await counts()).toEqual([3, 1])
  })

  test('limits that leave the policy leave the page, which shows the version', async () => {
    const service = await startMeteredService({ limits })
    await service.ask('/', { 'x-key': 'a' })
    const before = await service.page()
    expect(before).toContain('limit="key"')
    service.write({ limits: limits.slice(1) })
    await until('the policy is live', async () => {
      return samplesOf(await service.page()).get('tidegate_policy_limits') === 1
    })
    const page = await service.page()
    expect(page).not.toContain('limit="key"')
    expect(samplesOf(page).get('tidegate_policy_loads_total{result="applied"}')).toBe(1)
    const versionOf = (text: string) =>
      /tidegate_policy_info\{version="([^"]+)"\} 1/.exec(text)?.[1]
    expect(versionOf(page)).not.toBe(versionOf(before))
  })

  test('a flood of keys, paths, methods and hosts adds no series', async () => {
    const routes = [{ match: { path: '/a/**' }, upstream: 'api' }]
    const many = Array.from({ length: 50 }, (_, at) => ({
      name: `limit-${at}`,
      key: { header: 'x-key' },
      otherwise: 'skip',
      limit: 1_000_000,
      per: '1h',
    }))
    const service = await startMeteredService({ limits: [...limits, ...many], routes })
    const seriesOf = async () => samplesOf(await service.page())
    await flood(service.port, 40)
    const before = await seriesOf()
    await flood(service.port, 1_000)
    const after = await seriesOf()
    expect([...after.keys()].filter((series) => !before.has(series))).toEqual([])
    expect(after.size).toBeLessThan(SERIES_MAX)
    const page = await service.page()
    expect(page).not.toMatch(/flood/)
    const total = [...after].filter(([series]) => series.startsWith('tidegate_gateway_requests'))
    expect(total.reduce((sum, [, value]) => sum + value, 0)).toBeGreaterThanOrEqual(1_040)
  })

  test('OpenMetrics is sent to clients that accept it', async () => {
    const service = await startMeteredService({ limits })
    await service.ask('/', { 'x-key': 'a' })
    const page = await service.page('application/openmetrics-text;version=1.0.0,text/plain;q=0.5')
    expect(page).toMatch(/# TYPE tidegate_decisions counter\ntidegate_decisions_total\{/)
    expect(page.endsWith('# EOF\n')).toBe(true)
    expect(await service.page()).not.toContain('# EOF')
  })

  test('the page of metrics needs no credential and names no secret', async () => {
    const service = await startMeteredService({ limits })
    const response = await fetch(`${service.adminUrl}/metrics`)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toContain('version=0.0.4')
  })
})

test('on Redis, counts commands and shows the outage', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const store = { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`], deadline: '30s' }
  const service = await startMeteredService({ store, limits })
  const value = async (series: string) => samplesOf(await service.page()).get(`tidegate_${series}`)
  await service.ask('/', { 'x-key': 'a' })
  expect(await value('store_commands_total{shard="main",result="ok"}')).toBeGreaterThan(0)
  expect(await value('store_connections{shard="main"}')).toBe(1)
  expect(await value('breaker_state{shard="main",state="closed"}')).toBe(1)
  expect(await value('decisions_total{door="gateway",outcome="allowed",by="store"}')).toBe(1)
  await redis.stop()
  await until('the breaker opens', async () => {
    await service.ask('/', { 'x-key': 'a' })
    return (await value('breaker_state{shard="main",state="open"}')) === 1
  })
  expect(
    await value('decisions_total{door="gateway",outcome="allowed",by="open"}'),
  ).toBeGreaterThan(0)
  expect(await value('store_connections{shard="main"}')).toBe(0)
  const page = samplesOf(await service.page())
  const degraded = [...page].filter(([series]) => series.startsWith('tidegate_degraded'))
  expect(degraded.reduce((sum, [, count]) => sum + count, 0)).toBeGreaterThan(0)
})

/** Name, type, labels and meaning. */
const tableRow = new RegExp(
  '^\\| `(?<name>(?:tidegate|process|nodejs)_\\w+)` \\| (?<type>\\w+) ' +
    '\\| (?<labels>[^|]*) \\| (?<help>.*) \\|$',
  'gm',
)

/** A policy without regions has no metrics of them. */
const someRegions: RegionsState = {
  self: 'eu',
  forgotten: [],
  peers: [
    {
      ...{ region: 'us', isUp: true, problem: undefined, roundTripMs: 90, clockOffsetMs: 1 },
      ...{ sentBytes: 1, receivedBytes: 1, messages: 1 },
    },
  ],
  held: { keys: 1, units: 1 },
  counts: [{ limit: 'a', mode: 'home', by: 'home', count: 1 }],
  shared: { isExchanger: true, keys: 1, silent: [], failures: 0 },
  refused: { identity: 1, fingerprint: 1, format: 1 },
}

describe('docs/metrics.md', () => {
  test('lists every metric with its type, labels and meaning', async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const store = { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`] }
    const exporter = { OTEL_TRACES_EXPORTER: 'otlp', OTEL_TRACES_SAMPLER: 'always_off' }
    const service = await startMeteredService({ store, limits }, exporter)
    await service.ask('/', { 'x-key': 'a' })
    const families = [...(await service.families()), ...regionFamilies(someRegions)]
    const rows = readText('docs/metrics.md').matchAll(tableRow)
    const documented = new Map([...rows].map(({ groups = {} }) => [groups.name, groups]))
    const ofLibrary = [...documented.keys()].filter((name) => name?.startsWith('tidegate_limiter'))
    const ofSupervisor = ['tidegate_workers']
    const ofProber = new Prober([]).read().map(({ name }) => name)
    const names = families.map(({ name }) => name)
    const elsewhere = [...ofLibrary, ...ofSupervisor, ...ofProber]
    expect([...documented.keys()].sort()).toEqual([...names, ...elsewhere].sort())
    for (const { name, type, help, samples } of families) {
      const row = documented.get(name)
      expect(row).toMatchObject({ type, help })
      const [first] = samples
      if (first === undefined) continue
      const labels = Object.keys(first.labels).map((label) => `\`${label}\``)
      expect([name, row?.labels]).toEqual([name, labels.join(', ')])
    }
  })
})
