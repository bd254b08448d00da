/** Traces of every door, as a collector gets them. */

import { describe, expect, onTestFinished, test } from 'vitest'
import { spanAttributes } from '../../../packages/server/src/observability/tracing/span-attributes.ts'
import { tracingVariables } from '../../../packages/server/src/observability/tracing/tracing-settings.ts'
import { readText } from '../../house/source-file.ts'
import { freePort } from '../../support/servers/ports.ts'
import { startRedis } from '../../support/servers/redis.ts'
import { until } from '../../support/servers/until.ts'
import { startUpstream } from '../gateway/test-upstream.ts'
import { type MeteredService, startMeteredService } from '../metrics/metered-service.ts'
import { rlsClient } from '../rls/rls-client.ts'
import { type CollectedSpan, type Collector, startCollector } from './collector.ts'

const limits = [{ name: 'key', key: { header: 'x-key' }, otherwise: 'skip', limit: 2, per: '1h' }]

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
const spanId = '00f067aa0ba902b7'
const sampled = `00-${traceId}-${spanId}-01`

/** A deadline that a machine keeps that stalls: decisions come from the store. */
const patient = { deadline: '30s' }

const SERVER = 2
const CLIENT = 3

interface Traced {
  readonly collector: Collector
  readonly service: MeteredService
  /** The fields of the last request that the upstream got. */
  upstreamHeaders(): Readonly<Record<string, unknown>>
  /** Stops the service, which flushes, and returns all spans. */
  flushed(): Promise<readonly CollectedSpan[]>
}

async function start(environment: object = {}, policy: object = {}): Promise<Traced> {
  const collector = await startCollector()
  const upstream = await startUpstream()
  const service = await startMeteredService(
    { limits, upstreams: { api: { targets: [upstream.url] } }, ...policy },
    {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_TRACES_SAMPLER: 'always_on',
      ...environment,
    },
  )
  return {
    collector,
    service,
    upstreamHeaders: () => upstream.seen.at(-1)?.headers ?? {},
    async flushed() {
      await service.service.close()
      return collector.spans
    },
  }
}

/** Trusts the loopback address, as a gateway behind a load balancer does. */
const behindProxy = {
  gateway: {
    listen: { host: '127.0.0.1', port: 0 },
    trustProxy: ['127.0.0.1'],
    timeouts: { unready: '10ms', drain: '2s' },
  },
}

function only(spans: readonly CollectedSpan[], name: string): CollectedSpan {
  const found = spans.filter((span) => span.name === name)
  expect(found.map((span) => span.name)).toEqual([name])
  return found[0] as CollectedSpan
}

describe('the gateway', () => {
  test('has spans for the request, its check, the command and the upstream', async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const store = { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`], ...patient }
    const environment = {
      OTEL_SERVICE_NAME: 'edge',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test,team=a%20b',
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20x',
    }
    const { collector, service, upstreamHeaders, flushed } = await start(environment, { store })
    expect(await service.ask('/a/1?secret=1', { 'x-key': 'a-key' })).toBe(200)
    const spans = await flushed()
    const root = only(spans, 'GET /**')
    const check = only(spans, 'ratelimit.check')
    const command = only(spans, 'ratelimit.store')
    const upstream = only(spans, 'GET')
    expect(spans).toHaveLength(4)
    expect([root.kind, root.parentSpanId, root.status]).toEqual([SERVER, '', 0])
    expect([check.parentSpanId, command.parentSpanId]).toEqual([root.spanId, check.spanId])
    expect([upstream.kind, upstream.parentSpanId]).toEqual([CLIENT, root.spanId])
    expect(new Set(spans.map((span) => span.traceId)).size).toBe(1)
    expect(root.attributes).toEqual({
      'http.request.method': 'GET',
      'url.path': '/a/1',
      'url.scheme': 'http',
      'network.protocol.version': '1.1',
      'http.route': '/**',
      'http.response.status_code': 200,
    })
    expect(check.attributes).toEqual({
      'tidegate.door': 'gateway',
      'tidegate.outcome': 'allowed',
      'tidegate.allowed': true,
      'tidegate.limit.name': 'key',
      'tidegate.limit.algorithm': 'tokenBucket',
      'tidegate.limit.units': 2,
      'tidegate.limit.count': 1,
      'tidegate.used': 1,
      'tidegate.remaining': 1,
      'tidegate.backend': 'store',
      'tidegate.fallback': false,
    })
    expect(command.attributes).toEqual({ 'db.system.name': 'redis', 'tidegate.batch.size': 1 })
    expect(upstream.attributes).toMatchObject({
      'tidegate.upstream': 'api',
      'server.address': '127.0.0.1',
      'http.response.status_code': 200,
    })
    expect(upstreamHeaders().traceparent).toBe(`00-${root.traceId}-${upstream.spanId}-01`)
    for (const span of [check, command, upstream]) {
      expect(span.startNs >= root.startNs && span.endNs <= root.endNs).toBe(true)
    }
    expect(root.resource).toMatchObject({
      'service.name': 'edge',
      'service.version': '1.2.3',
      'deployment.environment.name': 'test',
      team: 'a b',
      'process.pid': process.pid,
    })
    expect(collector.requests[0]).toMatchObject({
      path: '/v1/traces',
      headers: { authorization: 'Bearer x', 'content-type': 'application/json' },
    })
    const shown = JSON.stringify(spans, (_, value) => (typeof value === 'bigint' ? 0 : value))
    expect(shown).not.toMatch(/a-key|secret/)
  })

  test('a denial is not an error, and calls no upstream', async () => {
    const { service, flushed } = await start()
    for (let call = 0; call < 3; call++) await service.ask('/', { 'x-key': 'a' })
    const spans = await flushed()
    const [denied] = spans.filter((span) => span.attributes['http.response.status_code'] === 429)
    expect([denied?.name, denied?.status]).toEqual(['GET', 0])
    const below = spans.filter((span) => span.parentSpanId === denied?.spanId)
    expect(below.map((span) => span.name)).toEqual(['ratelimit.check'])
    expect(below[0]?.attributes).toMatchObject({
      'tidegate.outcome': 'denied',
      'tidegate.allowed': false,
      'tidegate.backend': 'memory',
    })
  })

  test('an upstream that does not answer is an error', async () => {
    const upstreams = { api: { targets: [`http://127.0.0.1:${await freePort()}`] } }
    const { service, flushed } = await start({}, { upstreams })
    expect(await service.ask('/')).toBe(502)
    const spans = await flushed()
    const root = only(spans, 'GET /**')
    const upstream = only(spans, 'GET')
    expect([root.status, upstream.status]).toEqual([2, 2])
    expect(upstream.attributes).toMatchObject({ 'error.type': 'no_response' })
    expect(root.attributes).toMatchObject({ 'error.type': '502' })
  })

  test('a trace of a trusted proxy goes on, with its tracestate', async () => {
    const environment = { OTEL_TRACES_SAMPLER: 'parentbased_always_off' }
    const { service, upstreamHeaders, flushed } = await start(environment, behindProxy)
    await service.ask('/', { traceparent: sampled, tracestate: 'a=1, b=2' })
    const { traceparent, tracestate } = upstreamHeaders()
    const spans = await flushed()
    expect(only(spans, 'GET /**')).toMatchObject({ traceId, parentSpanId: spanId })
    expect(traceparent).toBe(`00-${traceId}-${only(spans, 'GET').spanId}-01`)
    expect(tracestate).toBe('a=1,b=2')
  })

  test('a client that is not trusted keeps its trace id, and decides nothing', async () => {
    const environment = { OTEL_TRACES_SAMPLER: 'parentbased_always_off' }
    const { service, upstreamHeaders, flushed } = await start(environment)
    await service.ask('/', { traceparent: sampled, tracestate: 'a=1' })
    const { traceparent, tracestate } = upstreamHeaders()
    expect([traceparent, tracestate]).toEqual([`00-${traceId}-${spanId}-00`, 'a=1'])
    expect(await flushed()).toEqual([])
  })

  test('an invalid traceparent is replaced, and its tracestate removed', async () => {
    const { service, upstreamHeaders, flushed } = await start()
    const invalid = [
      'hello',
      `00-${'0'.repeat(32)}-${spanId}-01`,
      `ff-${traceId}-${spanId}-01`,
      `00-${traceId}-${spanId}-01<script>`,
      `01-${traceId}-${spanId}-01-${'x'.repeat(8_000)}`,
    ]
    const sent: unknown[] = []
    for (const traceparent of invalid) {
      await service.ask('/', { traceparent, tracestate: 'a=1' })
      const headers = upstreamHeaders()
      sent.push([headers.traceparent, headers.tracestate])
    }
    const upstream = (await flushed()).filter((span) => span.name === 'GET')
    const made = upstream.map((span) => [`00-${span.traceId}-${span.spanId}-01`, undefined])
    expect(sent).toEqual(made)
    expect(new Set([traceId, ...upstream.map((span) => span.traceId)]).size).toBe(6)
  })

  test('a request that is not sampled has a trace for its upstream, and no span', async () => {
    const { service, upstreamHeaders, flushed } = await start({ OTEL_TRACES_SAMPLER: 'always_off' })
    await service.ask('/')
    expect(upstreamHeaders().traceparent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/)
    const own = `00-${traceId}-${spanId}-00`
    await service.ask('/', { traceparent: own, tracestate: 'a=1' })
    expect(upstreamHeaders()).toMatchObject({ traceparent: own, tracestate: 'a=1' })
    expect(await flushed()).toEqual([])
  })

  test('without tracing, both fields pass byte for byte', async () => {
    const off = { OTEL_SDK_DISABLED: 'true' }
    const { service, upstreamHeaders, flushed } = await start(off)
    const fields = { traceparent: '00-not-valid', tracestate: 'A=1,,' }
    await service.ask('/', fields)
    expect(upstreamHeaders()).toMatchObject(fields)
    await service.ask('/')
    expect(upstreamHeaders()).not.toHaveProperty('traceparent')
    expect(await flushed()).toEqual([])
  })

  test('a route that removes traceparent keeps it from its upstream', async () => {
    const requestHeaders = { remove: ['traceparent'] }
    const routes = [{ match: { path: '/**' }, upstream: 'api', requestHeaders }]
    const { service, upstreamHeaders, flushed } = await start({}, { routes })
    await service.ask('/')
    expect(upstreamHeaders()).not.toHaveProperty('traceparent')
    expect(await flushed()).toHaveLength(3)
  })
})

describe('other doors', () => {
  test('each check of a decision API request has a span', async () => {
    const { service, flushed } = await start()
    const one = { limits: [{ name: 'key', key: ['a'] }] }
    await service.check({ checks: [one, { ...one, cost: 3 }] }, { traceparent: sampled })
    const spans = await flushed()
    const root = only(spans, 'POST /v1/check')
    expect(root).toMatchObject({ traceId, parentSpanId: spanId, kind: SERVER })
    const checks = spans.filter((span) => span.name === 'ratelimit.check')
    expect(checks.map((span) => span.parentSpanId)).toEqual([root.spanId, root.spanId])
    expect(checks.map(({ attributes }) => attributes['tidegate.outcome'])).toEqual([
      'allowed',
      'denied',
    ])
    expect(checks[0]?.attributes['tidegate.door']).toBe('decision_api')
  })

  test('a call of Envoy has a span below that of its request', async () => {
    const { service, flushed } = await start()
    const address = service.service.rateLimitService?.addresses.grpc
    const client = rlsClient(address && 'port' in address ? address.port : 0)
    onTestFinished(() => client.close())
    const call = {
      domain: 'shop',
      descriptors: [{ entries: [{ key: 'x-key', value: 'a' }] }],
    }
    for (let at = 0; at < 3; at++) await client.ask(call, { metadata: { traceparent: sampled } })
    const spans = await flushed()
    const method = 'envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'
    const roots = spans.filter((span) => span.name === method)
    expect(roots).toHaveLength(3)
    expect(roots[0]).toMatchObject({ traceId, parentSpanId: spanId, kind: SERVER })
    expect(roots[0]?.attributes).toMatchObject({ 'rpc.response.status_code': '0' })
    const checks = spans.filter((span) => span.name === 'ratelimit.check')
    expect(checks.map(({ attributes }) => attributes['tidegate.outcome'])).toEqual([
      ...['allowed', 'allowed', 'denied'],
    ])
    expect(new Set(checks.map((span) => span.parentSpanId))).toEqual(
      new Set(roots.map((span) => span.spanId)),
    )
  })
})

describe('the collector', () => {
  test('is away: decisions are made, and spans are dropped and counted', async () => {
    const endpoint = `http://127.0.0.1:${await freePort()}`
    const events: string[] = []
    const service = await startMeteredService(
      { limits },
      {
        OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
        OTEL_EXPORTER_OTLP_TIMEOUT: '50',
        OTEL_TRACES_SAMPLER: 'always_on',
      },
      ({ type }) => events.push(type),
    )
    for (let call = 0; call < 3; call++) {
      expect(await service.ask('/', { 'x-key': 'a' })).toBe(call < 2 ? 200 : 429)
    }
    await until('spans are dropped', async () => {
      const page = await service.page()
      return /tidegate_spans_dropped_total\{reason="export_failed"\} [1-9]/.test(page)
    })
    expect(events.filter((type) => type === 'trace-export')).toHaveLength(1)
    expect(await service.ask('/')).toBe(200)
  })
})

test('OpenMetrics has exemplars of sampled requests, and the text format has none', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const store = { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`], ...patient }
  const { service } = await start({}, { store, ...behindProxy })
  await service.ask('/', { 'x-key': 'a', traceparent: sampled })
  const page = await service.page('application/openmetrics-text')
  const exemplar = ` # \\{trace_id="${traceId}"\\} [\\d.e-]+ \\d+\\.\\d{3}$`
  const decision =
    'tidegate_decision_duration_seconds_bucket\\{door="gateway",by="store",le="[^"]+"\\}'
  expect(page).toMatch(new RegExp(`^${decision} \\d+${exemplar}`, 'm'))
  const request = 'tidegate_gateway_request_duration_seconds_bucket\\{route="[^"]+",le="[^"]+"\\}'
  expect(page).toMatch(new RegExp(`^${request} \\d+${exemplar}`, 'm'))
  expect(await service.page()).not.toContain('trace_id')
})

describe('docs/tracing.md', () => {
  const text = readText('docs/tracing.md')

  test('lists every setting with its default', () => {
    const rows = [...text.matchAll(/^\| `(OTEL_\w+)` \| ([^|]*) \|/gm)]
    const documented = rows.map(([, name, value]) => [name, value?.replaceAll('`', '').trim()])
    expect(Object.fromEntries(documented)).toEqual(tracingVariables)
  })

  test('lists every span with its attributes', () => {
    const rows = [...text.matchAll(/^\| `?([\w. ()]+?)`? \| (`[a-z_.`, ]+) \|/gm)]
    const names = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name)
    const documented = rows.map(([, span, cell]) => [span, names(cell ?? '').sort()])
    const made = Object.entries(spanAttributes).map(([span, all]) => [span, [...all].sort()])
    expect(Object.fromEntries(documented)).toEqual(Object.fromEntries(made))
  })
})
