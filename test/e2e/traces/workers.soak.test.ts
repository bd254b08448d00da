/** Several processes that send spans to one collector. */

import { expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../../support/servers/redis.ts'
import { until } from '../../support/servers/until.ts'
import { startBackend, startGatewayProcess } from '../cli/gateway-process.ts'
import { startCollector } from './collector.ts'

test('a collector gets the spans of all workers', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const [collector, backend] = [await startCollector(), await startBackend()]
  onTestFinished(() => backend.stop())
  const gateway = await startGatewayProcess({
    policy: {
      store: { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`] },
      upstreams: { api: { targets: [backend.url] } },
      limits: [{ name: 'all', key: 'everyone', limit: 1_000, per: '1h' }],
    },
    args: ['--workers', '2'],
    environment: {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_TRACES_SAMPLER: 'always_on',
    },
  })
  onTestFinished(async () => void (await gateway.stop()))
  const pids = () => new Set(collector.spans.map(({ resource }) => resource['process.pid']))
  let asked = 0
  const ask = async () => {
    await (await fetch(gateway.url, { headers: { connection: 'close' } })).arrayBuffer()
    asked += 1
  }
  await until('both workers have sent spans', async () => {
    for (let at = 0; at < 10; at++) await ask()
    return pids().size === 2
  })
  await gateway.stop()
  const roots = collector.spans.filter((span) => span.name === 'GET /**')
  expect(roots).toHaveLength(asked)
  expect(new Set(roots.map((span) => span.traceId)).size).toBe(asked)
})
