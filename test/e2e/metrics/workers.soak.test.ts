/** Pages in the middle of reloads, restarts and kills of workers: no total ever falls. */

import { expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../../support/servers/redis.ts'
import { until } from '../../support/servers/until.ts'
import { startBackend, startGatewayProcess } from '../cli/gateway-process.ts'
import { overload, samplesOf } from './metered-service.ts'
import { workersOf } from './worker-processes.ts'

const WORKERS = 2

test('totals stay whole while policies are reloaded and workers restarted or killed', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const backend = await startBackend()
  onTestFinished(() => backend.stop())
  const policyOf = (limit: number) => ({
    store: { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`], deadline: '5s' },
    gateway: { overload },
    upstreams: { api: { targets: [backend.url] } },
    limits: [{ name: 'all', key: 'everyone', limit, per: '1h' }],
  })
  const args = ['--workers', String(WORKERS)]
  const gateway = await startGatewayProcess({ policy: policyOf(1_000_000), args })
  onTestFinished(async () => void (await gateway.stop()))
  const get = async (url: string) => (await fetch(url, { headers: { connection: 'close' } })).text()
  const page = async () => samplesOf(await get(`http://127.0.0.1:${gateway.adminPort}/metrics`))
  const seen: number[] = []
  const scrape = async () => {
    const samples = await page()
    seen.push(requestsOf(samples))
    return samples
  }
  await until('all workers answer', async () => answeredOf(await scrape()) === WORKERS)

  let sent = 0
  const load = async (isOver: () => Promise<boolean>) => {
    do {
      await get(gateway.url)
      sent += 1
      await scrape()
    } while (!(await isOver()))
  }
  for (let round = 1; round <= 5; round++) {
    gateway.write(policyOf(1_000_000 + round))
    await load(async () => sent % 10 === 0)
  }
  const old = workersOf(gateway.child.pid)
  gateway.child.kill('SIGHUP')
  await load(async () => {
    const pids = workersOf(gateway.child.pid)
    return pids.length === WORKERS && old.every((pid) => !pids.includes(pid))
  })
  await until('all requests are counted', async () => requestsOf(await scrape()) === sent)

  const [victim = 0] = workersOf(gateway.child.pid)
  process.kill(victim, 'SIGKILL')
  await until('the worker is replaced', async () => {
    const isGone = !workersOf(gateway.child.pid).includes(victim)
    return isGone && answeredOf(await scrape()) === WORKERS
  })
  await load(async () => sent % 10 === 0)
  // The one that was killed had no request after its last page. A worker that stalls is late.
  await until('all requests are counted again', async () => requestsOf(await scrape()) === sent)
  const falls = seen.filter((total, at) => total < (seen[at - 1] ?? 0))
  expect(falls).toEqual([])
  expect(seen.length).toBeGreaterThan(30)
})

function requestsOf(samples: ReadonlyMap<string, number>): number {
  const labels = 'door="gateway",limit="all",mode="enforce",outcome="allowed"'
  return samples.get(`tidegate_limit_decisions_total{${labels}}`) ?? 0
}

function answeredOf(samples: ReadonlyMap<string, number>): number {
  return samples.get('tidegate_workers{state="answered"}') ?? 0
}
