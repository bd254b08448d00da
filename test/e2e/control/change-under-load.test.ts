/** Versions that are published while nodes decide. */

import { describe, expect, onTestFinished, test } from 'vitest'
import { isEtcdMissing, startEtcd } from '../../support/servers/etcd/etcd.ts'
import { until } from '../../support/servers/until.ts'
import { useServer } from '../../support/use-server.ts'
import { change, type FleetNode, newPrefix, openVersions, startNode } from './fleet-node.ts'

const VERSIONS = 20
const CALLERS_OF_NODE = 4
const NAMES = ['one', 'two', 'three']

/** Limits that all have the size of their version. */
const limitsOf = (size: number) =>
  NAMES.map((name) => ({ name, key: 'everyone', limit: size, per: '1h' }))

// Needs etcd, which run.sh installs.
describe.skipIf(isEtcdMissing())('a change under load', () => {
  const etcd = useServer(() => startEtcd())

  test('loses no decision, and judges none by parts of two policies', async () => {
    const options = { endpoints: etcd.endpoints, prefix: newPrefix() }
    const { versions, close } = openVersions(options)
    onTestFinished(close)
    const publish = (size: number) =>
      versions.publish(`limits: ${JSON.stringify(limitsOf(size))}\n`, change)
    await publish(1)
    const nodes = await Promise.all(['a', 'b'].map((name) => startNode(name, options)))
    let isEnded = false
    const seen = new Set<number>()
    const call = async (node: FleetNode) => {
      let [made, last] = [0, 0]
      while (!isEnded) {
        // Rejects if there is no decision, and the test fails.
        const sizes = await node.sizes(NAMES)
        expect(new Set(sizes).size, sizes.join()).toBe(1)
        expect(sizes).toHaveLength(NAMES.length)
        expect(sizes[0]).toBeGreaterThanOrEqual(last)
        last = sizes[0] ?? 0
        seen.add(last)
        made += 1
      }
      return made
    }
    const callers = nodes.flatMap((node) =>
      Array.from({ length: CALLERS_OF_NODE }, () => call(node)),
    )
    // Nodes skip versions, because the next one is already published. On a machine that stalls,
    // they would skip all but the first and the last.
    for (let size = 2; size <= VERSIONS; size++) {
      await publish(size)
      if (size % 5 > 0) continue
      await until('one of the last five is seen', () => [...seen].some((one) => one > size - 5))
    }
    const last = async (node: FleetNode) => (await node.sizes(NAMES))[0] === VERSIONS
    for (const node of nodes) await until('it has the last version', () => last(node))
    isEnded = true
    const made = await Promise.all(callers)
    expect(Math.min(...made)).toBeGreaterThan(0)
    expect(seen.size).toBeGreaterThan(2)
  })
})
