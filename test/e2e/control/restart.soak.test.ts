/** How long a node takes to start from its last good state while etcd is away. */

import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { isEtcdMissing, startEtcd } from '../../support/servers/etcd/etcd.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { until } from '../../support/servers/until.ts'
import { change, newPrefix, openVersions, policyOf, startNode } from './fleet-node.ts'

const STARTS = 10

/**
 * A node waits for a silent etcd for 0.2 s, and for 3 s if it has no state file. A start itself
 * takes from one to several seconds on a busy machine, with or without etcd, so that times are also
 * printed.
 */
const LONGER_MS_MAX = 1_000

// Needs etcd, which run.sh installs.
describe.skipIf(isEtcdMissing())('a node without etcd', () => {
  test('starts about as quickly as one that follows a file alone', async () => {
    const etcd = await startEtcd({ members: 3 })
    onTestFinished(() => etcd.stop())
    const folder = makeFolder()
    onTestFinished(() => removeFolder(folder))
    const options = { endpoints: etcd.endpoints, prefix: newPrefix() }
    const control = { stateFile: join(folder, 'state') }
    const { versions, close } = openVersions(options)
    await versions.publish(policyOf(70), change)
    await close()
    const before = await startNode('a', { ...options, control })
    await until('it is live', async () => (await before.limit()) === 70)
    await before.process.stop()
    for (const member of etcd.members) member.kill('SIGSTOP')
    onTestFinished(() => {
      for (const member of etcd.members) member.kill('SIGCONT')
    })

    const places = {
      'with a file alone': undefined,
      'if all members are stopped': etcd.endpoints,
      'if all members refuse': ['http://127.0.0.1:1', 'http://127.0.0.1:2', 'http://127.0.0.1:3'],
      'if a firewall takes all and answers nothing': [await silentEndpoint()],
    }
    const least: Record<string, number> = {}
    for (const [name, endpoints] of Object.entries(places)) {
      const followed = { ...options, endpoints: endpoints ?? [], control }
      const started =
        endpoints === undefined
          ? () => startedMs(() => startNode('b', { ...options, args: [] }), 1)
          : () => startedMs(() => startNode('a', followed), 70)
      const all: number[] = []
      for (let start = 0; start < STARTS; start++) all.push(await started())
      console.info(`ready ${name} after ${all.map(Math.round).join(', ')} ms`)
      least[name] = Math.min(...all)
    }
    // The quickest of each, because others have waited for a core.
    const fileMs = least['with a file alone'] ?? Number.NaN
    for (const ms of Object.values(least)) expect(ms - fileMs).toBeLessThan(LONGER_MS_MAX)
  })
})

async function silentEndpoint(): Promise<string> {
  const silent = createServer().listen(0, '127.0.0.1')
  await once(silent, 'listening')
  onTestFinished(() => void silent.close())
  return `http://127.0.0.1:${(silent.address() as AddressInfo).port}`
}

/** The time until the first decision, which is by a limit of this size. */
async function startedMs(start: () => ReturnType<typeof startNode>, size: number): Promise<number> {
  const begin = performance.now()
  const node = await start()
  expect(await node.limit()).toBe(size)
  const tookMs = performance.now() - begin
  await node.process.stop()
  return tookMs
}
