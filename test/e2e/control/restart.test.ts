/** Nodes whose etcd is killed or does not respond: how they start, catch up and close. */

import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { EtcdKeyValue } from '../../../packages/server/src/control/etcd/etcd-key-value.ts'
import { readNodes } from '../../../packages/server/src/control/nodes/node-report.ts'
import { isEtcdMissing, startEtcd } from '../../support/servers/etcd/etcd.ts'
import { freePort } from '../../support/servers/ports.ts'
import { startRedis } from '../../support/servers/redis.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { until } from '../../support/servers/until.ts'
import { startPolicyProcess } from '../cli/policy-process.ts'
import { type AdminNode, startAdminNode } from './admin-nodes.ts'
import { apiPolicy } from './api-policy.ts'
import { localPolicy, newPrefix, openVersions } from './fleet-node.ts'

/** A call to each of the silent members would take 2 s. */
const SILENT_MEMBERS = 16
const CLOSED_MS_MAX = 10_000

// Needs etcd, which run.sh installs.
describe.skipIf(isEtcdMissing())('a node whose etcd is killed', () => {
  test('starts from its last good state, catches up, and closes', async () => {
    const etcd = await startEtcd()
    onTestFinished(() => etcd.stop())
    const folder = makeFolder()
    onTestFinished(() => removeFolder(folder))
    const options = { endpoints: etcd.endpoints, prefix: newPrefix() }
    const control = { stateFile: join(folder, 'state') }
    const witness = await startAdminNode('witness', options)
    const before = await startAdminNode('a', { ...options, control })
    await before.publish(apiPolicy(70), 0)
    await untilLimit([before, witness], 70)
    await before.service.close()
    etcd.members[0]?.kill('SIGKILL')
    const after = await startAdminNode('a', { ...options, control })
    expect(await limitOf(after)).toBe(70)
    await etcd.members[0]?.restart()
    await until('it is published', async () => {
      const { status } = await after.publish(apiPolicy(80), 1)
      // 412: a publication that was not answered in time was applied all the same.
      return status === 200 || status === 412
    })
    await untilLimit([after, witness], 80)
    for (const node of [after, witness]) await node.service.close()
  })
})

// Needs etcd, which run.sh installs.
test.skipIf(isEtcdMissing())('several processes of a node report each, and end', async () => {
  const [etcd, redis] = [await startEtcd(), await startRedis()]
  onTestFinished(() => Promise.all([etcd.stop(), redis.stop()]).then(() => undefined))
  const options = { endpoints: etcd.endpoints, prefix: newPrefix() }
  const { store, close } = openVersions(options)
  onTestFinished(close)
  const counters = { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`] }
  const listen = { host: '127.0.0.1', port: await freePort() }
  const node = await startPolicyProcess({
    command: 'serve',
    policy: {
      ...localPolicy({ ...options, control: { node: 'a' } }),
      store: counters,
      decisionApi: { listen, token: { env: 'TIDEGATE_TEST_TOKEN' } },
    },
    ready: 'counters:',
    environment: { TIDEGATE_TEST_TOKEN: 'a-token-for-tests' },
    args: ['--workers', '2'],
  })
  await until('both have reported', async () => {
    const names = (await readNodes(store)).map(({ node: name }) => name)
    return names.join() === 'a,a'
  })
  expect(await node.stop()).toBe(0)
  // A process that stalls for half a second while it ends leaves its report to the end of a lease.
  await until('no report is left', async () => (await readNodes(store)).length === 0)
})

test('a node closes while members of etcd do not respond', async () => {
  const silent = createServer().listen(0, '127.0.0.1')
  await once(silent, 'listening')
  onTestFinished(() => void silent.close())
  const endpoint = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`
  const endpoints = Array<string>(SILENT_MEMBERS).fill(endpoint)
  const store = new EtcdKeyValue({ endpoints, prefix: newPrefix() })
  store.follow('live/', { onChange: () => undefined, onContact: () => undefined })
  const writing = store.transact([], [{ key: 'nodes/a', value: '', isLeased: true }])
  writing.catch(() => undefined)
  await once(silent, 'connection')
  const closed = store.close().then(() => 'closed')
  expect(await Promise.race([closed, sleep(CLOSED_MS_MAX, 'waits')])).toBe('closed')
  await expect(writing).rejects.toMatchObject({ code: 'unreachable' })
})

test('a node watches again if a member ends a watch with the chunk that creates it', async () => {
  const header = { cluster_id: '1', member_id: '1', revision: '7' }
  let watches = 0
  const member = createHttpServer((request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    if (request.url !== '/v3/watch') {
      response.end(JSON.stringify({ header }))
      return
    }
    watches += 1
    const created = JSON.stringify({ result: { header, created: true } })
    const ended = JSON.stringify({ error: { grpc_code: 14, message: 'no leader' } })
    response.end(`${created}\n${ended}\n${created}\n`)
  }).listen(0, '127.0.0.1')
  await once(member, 'listening')
  onTestFinished(() => void member.close())
  const endpoints = [`http://127.0.0.1:${(member.address() as AddressInfo).port}`]
  const store = new EtcdKeyValue({ endpoints, prefix: newPrefix() })
  onTestFinished(() => store.close())
  store.follow('live/', { onChange: () => undefined, onContact: () => undefined })
  await until('it has watched three times', () => watches >= 3)
})

async function untilLimit(nodes: readonly AdminNode[], limit: number): Promise<void> {
  for (const node of nodes) {
    await until(`the limit is ${limit}`, async () => (await limitOf(node)) === limit)
  }
}

async function limitOf({ check }: AdminNode): Promise<number | undefined> {
  return (await check({ organisation: 'acme' })).limit
}
