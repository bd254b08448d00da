/** One page of metrics for several processes, also while one of them hangs or is killed. */

import { expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../../support/servers/redis.ts'
import { until } from '../../support/servers/until.ts'
import { startBackend, startGatewayProcess } from '../cli/gateway-process.ts'
import { overload, samplesOf } from './metered-service.ts'
import { workersOf } from './worker-processes.ts'

const WORKERS = 2

test('the page is the sum of all workers, and survives one that hangs or is killed', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const backend = await startBackend()
  onTestFinished(() => backend.stop())
  const gateway = await startGatewayProcess({
    policy: {
      store: { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`], deadline: '5s' },
      gateway: { overload },
      upstreams: { api: { targets: [backend.url] } },
      limits: [{ name: 'all', key: 'everyone', limit: 1_000_000, per: '1h' }],
    },
    args: ['--workers', String(WORKERS)],
  })
  onTestFinished(async () => void (await gateway.stop()))
  // A connection for each request, so that all workers get some.
  const ask = async () => {
    await (await fetch(gateway.url, { headers: { connection: 'close' } })).arrayBuffer()
  }
  const scrape = async () => {
    const response = await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`, {
      headers: { connection: 'close' },
    })
    return samplesOf(await response.text())
  }
  const value = (samples: ReadonlyMap<string, number>, series: string) =>
    samples.get(`tidegate_${series}`) ?? 0
  const requestsOf = (samples: ReadonlyMap<string, number>) =>
    value(
      samples,
      'limit_decisions_total{door="gateway",limit="all",mode="enforce",outcome="allowed"}',
    )
  const answeredOf = (samples: ReadonlyMap<string, number>) =>
    value(samples, 'workers{state="answered"}')
  await until('all workers answer', async () => answeredOf(await scrape()) === WORKERS)

  for (let sent = 0; sent < 40; sent++) await ask()
  // A worker that does not answer within half a second counts with its page before.
  await until('all are counted', async () => requestsOf(await scrape()) === 40)
  for (let page = 0; page < 6; page++) expect(requestsOf(await scrape())).toBe(40)

  const [first = 0, second = 0] = workersOf(gateway.child.pid)
  process.kill(first, 'SIGSTOP')
  onTestFinished(() => resume(first))
  // Every one of them: the connection goes to a worker that answers. On a machine that stalls, a
  // page may lack the other worker's answer too, but not its requests.
  const totals = new Set<number>()
  for (let page = 0; page < 4; page++) {
    await until('only the other worker answers', async () => {
      const samples = await scrape()
      totals.add(requestsOf(samples))
      return answeredOf(samples) === WORKERS - 1
    })
  }
  expect([...totals]).toEqual([40])

  process.kill(first, 'SIGCONT')
  await until('both answer again', async () => answeredOf(await scrape()) === WORKERS)
  process.kill(second, 'SIGKILL')
  await until('the worker is replaced', async () => {
    const pids = workersOf(gateway.child.pid)
    return !pids.includes(second) && answeredOf(await scrape()) === WORKERS
  })
  expect(requestsOf(await scrape())).toBe(40)
  for (let sent = 0; sent < 10; sent++) await ask()
  await until('the others are counted', async () => requestsOf(await scrape()) === 50)
})

function resume(pid: number): void {
  try {
    process.kill(pid, 'SIGCONT')
  } catch {
    // It has ended.
  }
}
