/** Nodes whose etcd is killed or does not respond: how they start, catch up and close. */

import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { EtcdKeyValue } from '../../../packages/server/src/control/etcd/etcd-key-value.ts'
import { isEtcdMissing, startEtcd } from '../../support/servers/etcd/etcd.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { until } from '../../support/servers/until.ts'
import { type AdminNode, startAdminNode } from './admin-nodes.ts'
import { apiPolicy } from './api-policy.ts'
import { newPrefix } from './fleet-node.ts'

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
      return status === 200
    })
    await untilLimit([after, witness], 80)
    for (const node of [after, witness]) await node.service.close()
  })
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

async function untilLimit(nodes: readonly AdminNode[], limit: number): Promise<void> {
  for (const node of nodes) {
    await until(`the limit is ${limit}`, async () => (await limitOf(node)) === limit)
  }
}

async function limitOf({ check }: AdminNode): Promise<number | undefined> {
  return (await check({ organisation: 'acme' })).limit
}
