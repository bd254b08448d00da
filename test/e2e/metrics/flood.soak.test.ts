/** A page of metrics stays small, whatever clients send and however large the policy is. */

import { expect, test } from 'vitest'
import { flood } from './flood.ts'
import { samplesOf, startMeteredService } from './metered-service.ts'

const SERIES_MAX = 2_500

const KEYS = 1_000_000
/** As many as a request may have. */
const BATCH = 1_000
const REQUESTS = 10_000

/** Calls at a time, fewer than connections of one address. */
const ABREAST = 4

const SCRAPES = 20

test('a million keys and 10,000 paths, methods and hosts add no series', {
  timeout: 600_000,
}, async () => {
  const limits = Array.from({ length: 70 }, (_, at) => ({
    name: `limit-${at}`,
    key: { header: at === 0 ? 'x-key' : `x-key-${at}` },
    ...{ otherwise: 'skip', limit: 1_000_000, per: '1h' },
  }))
  const routes = Array.from({ length: 40 }, (_, at) => ({
    match: { path: at === 0 ? '/a/**' : `/route-${at}/**` },
    upstream: 'api',
  }))
  const decisionApi = {
    ...{ listen: { host: '127.0.0.1', port: 0 }, token: { env: 'TOKEN' } },
    ...{ batchMax: BATCH, bodyBytesMax: '1mb' },
  }
  const service = await startMeteredService({ limits, routes, decisionApi })
  const all = Object.fromEntries(limits.map((_, at) => [`x-key-${at}`, 'x']))
  // First the limit and the route that are flooded, so that these have series of their own.
  await flood(service.port, 40)
  await askKeys(service.check, BATCH)
  await service.askRls({ 'x-key': 'one' })
  for (let at = 0; at < routes.length; at++) await service.ask(`/route-${at}/`, all)
  const before = samplesOf(await service.page())
  await flood(service.port, REQUESTS)
  await askKeys(service.check, KEYS)
  const after = samplesOf(await service.page())
  expect([...after.keys()].filter((series) => !before.has(series))).toEqual([])
  expect(after.size).toBeLessThan(SERIES_MAX)
  const units = after.get('tidegate_limit_units_total{limit="limit-0"}')
  expect(units).toBeGreaterThanOrEqual(KEYS + REQUESTS)

  // Processor time, because a busy machine delays every page. It contains the client.
  const start = process.cpuUsage()
  for (let scrape = 0; scrape < SCRAPES; scrape++) await service.page()
  const { user, system } = process.cpuUsage(start)
  const pageMs = (user + system) / 1_000 / SCRAPES
  const read = after.get('tidegate_scrape_duration_seconds') ?? 0
  console.info(
    `${after.size} series; reading the numbers took ${(read * 1_000).toFixed(1)} ms, and a page ` +
      `${pageMs.toFixed(1)} ms of the processor with its client`,
  )
})

/** Asks for this many keys that were not used before. */
async function askKeys(check: (body: object) => Promise<void>, count: number): Promise<void> {
  let next = 0
  const asking = Array.from({ length: ABREAST }, async () => {
    while (next < count) {
      const from = next
      next += BATCH
      const checks = Array.from({ length: BATCH }, (_, at) => ({
        limits: [{ name: 'limit-0', key: [`flood-${from + at}`] }],
      }))
      await check({ checks })
    }
  })
  await Promise.all(asking)
}
