/** How long a node takes to start from its last good state while etcd is away. */

import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { isEtcdMissing, startEtcd } from '../../support/servers/etcd/etcd.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { until } from '../../support/servers/until.ts'
import { change, newPrefix, openVersions, policyOf, startNode } from './fleet-node.ts'

const STARTS = 5

/**
 * Without a state file, a node waits for its first document for 3 s. A start itself takes from one
 * to several seconds on a busy machine, with or without etcd, so that times are also printed.
 */
const LONGER_MS_MAX = 2_500

// Needs etcd, which run.sh installs.
describe.skipIf(isEtcdMissing())('a node without etcd', () => {
  test('starts about as quickly as one that follows a file alone', async () => {
    const etcd = await startEtcd()
    onTestFinished(() => etcd.stop())
    const folder = makeFolder()
    onTestFinished(() => removeFolder(folder))
    const options = { endpoints: etcd.endpoints, prefix: newPrefix() }
    const followed = { ...options, control: { stateFile: join(folder, 'state') } }
    const { versions, close } = openVersions(options)
    await versions.publish(policyOf(70), change)
    await close()
    const before = await startNode('a', followed)
    await until('it is live', async () => (await before.limit()) === 70)
    await before.process.stop()
    etcd.members[0]?.kill('SIGKILL')

    const [withoutMs, fileMs]: [number[], number[]] = [[], []]
    for (let start = 0; start < STARTS; start++) {
      withoutMs.push(await startedMs(() => startNode('a', followed), 70))
      fileMs.push(await startedMs(() => startNode('b', { ...options, args: [] }), 1))
    }
    const texts = [withoutMs, fileMs].map((all) => all.map(Math.round).join(', '))
    console.info(`ready without etcd after ${texts[0]} ms, with a file alone after ${texts[1]} ms`)
    // The quickest of each, because others have waited for a core.
    expect(Math.min(...withoutMs) - Math.min(...fileMs)).toBeLessThan(LONGER_MS_MAX)
  })
})

/** The time until the first decision, which is by a limit of this size. */
async function startedMs(start: () => ReturnType<typeof startNode>, size: number): Promise<number> {
  const begin = performance.now()
  const node = await start()
  expect(await node.limit()).toBe(size)
  const tookMs = performance.now() - begin
  await node.process.stop()
  return tookMs
}
