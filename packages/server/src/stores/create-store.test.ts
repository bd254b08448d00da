import { setTimeout as sleep } from 'node:timers/promises'
import { tokenBucket } from 'tidegate'
import { afterAll, describe, expect, test } from 'vitest'
import { startCluster } from '../../../../test/support/servers/cluster.ts'
import { freePort } from '../../../../test/support/servers/ports.ts'
import { startRedis } from '../../../../test/support/servers/redis.ts'
import { startSentinel } from '../../../../test/support/servers/sentinel.ts'
import { until } from '../../../../test/support/servers/until.ts'
import { createStore, type OpenStore, type StoreSettings } from './create-store.ts'

const stops: (() => Promise<unknown>)[] = []

afterAll(async () => {
  for (const stop of stops.reverse()) await stop()
})

const limit = tokenBucket({ limit: 2, per: '1h' })

const DEADLINE_MS = 30_000

/** Longer than a machine stalls: a failover is not the subject here. */
const PATIENT_MS = 15_000

async function charge({ store }: OpenStore, key: string) {
  const [decision] = await store.charge([{ name: 'test', limit, key, cost: 1 }], 'all')
  return decision
}

function open(settings: StoreSettings): OpenStore {
  // On a machine that stalls a call can take longer than the usual deadline.
  const opened = createStore(settings, { deadlineMs: DEADLINE_MS })
  stops.push(() => opened.close())
  return opened
}

/** Two stores, as two processes have them, and one limit of two. */
async function expectShared(settings: StoreSettings): Promise<void> {
  const [one, other] = [open(settings), open(settings)]
  await until('both are connected', async () => one.isConnected() && other.isConnected())
  expect(await charge(one, 'ada')).toMatchObject({ allowed: true, remaining: 1, degraded: null })
  expect(await charge(other, 'ada')).toMatchObject({ allowed: true, remaining: 0 })
  expect(await charge(one, 'ada')).toMatchObject({ allowed: false, degraded: null })
}

describe('a store from settings', () => {
  test('in memory, is the process’s own', async () => {
    const opened = open({ mode: 'memory', addresses: [] })
    expect(opened.isConnected()).toBe(true)
    expect(await charge(opened, 'ada')).toMatchObject({ allowed: true, remaining: 1 })
    expect(opened.description).toBe('memory of this process')
  })

  test('on one server with a password and TLS, is shared', async () => {
    const server = await startRedis({ password: 'geheim', tls: true })
    stops.push(() => server.stop())
    const { host, port, tls } = server
    const settings: StoreSettings = {
      mode: 'standalone',
      addresses: [`${host}:${port}`],
      password: 'geheim',
      ...(tls === undefined ? undefined : { tls: { ca: tls.ca } }),
    }
    await expectShared(settings)
  })

  test('with Sentinel, is shared', async () => {
    const sentinel = await startSentinel({ downAfterMs: PATIENT_MS })
    stops.push(() => sentinel.stop())
    const addresses = sentinel.sentinels.map(({ host, port }) => `${host}:${port}`)
    await expectShared({ mode: 'sentinel', addresses, sentinelName: sentinel.name })
  })

  test('on Cluster, is shared', async () => {
    const cluster = await startCluster({ replicasPerMaster: 0, nodeTimeoutMs: PATIENT_MS })
    stops.push(() => cluster.stop())
    const addresses = cluster.nodes.map(({ host, port }) => `${host}:${port}`)
    await expectShared({ mode: 'cluster', addresses: addresses.slice(0, 1) })
  })

  test('waits for an answer as long as its deadline, also if that is seconds', async () => {
    const server = await startRedis()
    stops.push(() => server.stop())
    const opened = open({ mode: 'standalone', addresses: [`${server.host}:${server.port}`] })
    await until('it is connected', () => opened.isConnected())
    expect(await charge(opened, 'ada')).toMatchObject({ remaining: 1, degraded: null })
    server.kill('SIGSTOP')
    const late = charge(opened, 'ada')
    // Longer than a client without a deadline of its own would wait.
    await sleep(1_500)
    server.kill('SIGCONT')
    expect(await late).toMatchObject({ allowed: true, remaining: 0, degraded: null })
  })

  test('opens while Redis is away, and decides as declared', async () => {
    const port = await freePort()
    const errors: string[] = []
    const opened = createStore(
      { mode: 'standalone', addresses: [`127.0.0.1:${port}`] },
      { onStoreError: 'closed', onConnectionError: (error) => errors.push(error.message) },
    )
    stops.push(() => opened.close())
    expect(await charge(opened, 'ada')).toMatchObject({
      allowed: false,
      degraded: { mode: 'closed' },
    })
    await until('an error is told', async () => errors.length > 0)
    expect(errors[0]).toContain('ECONNREFUSED')
    expect(opened.isConnected()).toBe(false)
  })
})
