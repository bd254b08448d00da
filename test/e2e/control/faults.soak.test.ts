/** Every fault of etcd: decisions go on, and the node catches up when the fault has ended. */

import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { EtcdKeyValue } from '../../../packages/server/src/control/etcd/etcd-key-value.ts'
import { Versions } from '../../../packages/server/src/control/versions/versions.ts'
import { startFaultProxy } from '../../support/faults/fault-proxy.ts'
import { isEtcdMissing, startEtcd } from '../../support/servers/etcd/etcd.ts'
import { until } from '../../support/servers/until.ts'
import { addNodeUser, type EtcdFault, etcdFaults, NODE_USER, ROOT_PASSWORD } from './etcd-faults.ts'
import { change, type FleetNode, newPrefix, policyOf, startNode } from './fleet-node.ts'

/** Longer than two looks, so that the node has noticed the fault. */
const FAULT_MS = 8_000
/** Printed times are below 10 s. A busy machine may take longer. */
const CAUGHT_UP_MS_MAX = 30_000
const SLOW_MS = 300_000

// Needs etcd, which run.sh installs.
describe.skipIf(isEtcdMissing())('a node goes on and catches up when', () => {
  for (const fault of etcdFaults) {
    test(fault.name, { timeout: SLOW_MS }, async () => {
      const { place, node } = await started(fault)
      await place.publish(10)
      await until('the first version is live', async () => (await node.limit()) === 10)
      const decisions = decide(node)
      const end = await fault.begin(place)
      await sleep(FAULT_MS)
      await end()
      const endedAt = performance.now()
      await until('it can be published again', async () => {
        await place.publish(20)
        return true
      })
      await until('the node has caught up', async () => (await node.limit()) === 20)
      const tookMs = Math.round(performance.now() - endedAt)
      const { made, failed } = await decisions()
      console.info(`${fault.name}: caught up in ${tookMs} ms, ${failed} of ${made} calls failed`)
      expect(failed).toBe(0)
      expect(made).toBeGreaterThan(100)
      expect(tookMs).toBeLessThan(CAUGHT_UP_MS_MAX)
    })
  }
})

/** The node reaches etcd through proxies; the publisher does not. */
async function started({ etcd: options }: EtcdFault) {
  const etcd = await startEtcd(options)
  onTestFinished(() => etcd.stop())
  const proxies = await Promise.all(etcd.members.map(({ port }) => startFaultProxy({ port })))
  onTestFinished(async () => void (await Promise.all(proxies.map((proxy) => proxy.stop()))))
  const hasUsers = options.rootPassword !== undefined
  if (hasUsers) await addNodeUser(etcd)
  const access = hasUsers ? { user: 'root', password: ROOT_PASSWORD } : {}
  const prefix = newPrefix()
  const store = new EtcdKeyValue({ endpoints: etcd.endpoints, prefix, ...access })
  onTestFinished(() => store.close())
  const versions = new Versions(store)
  const publish = async (limit: number) => void (await versions.publish(policyOf(limit), change))
  const node = await startNode('a', {
    endpoints: proxies.map(({ port }) => `http://127.0.0.1:${port}`),
    prefix,
    ...(hasUsers && { etcd: { user: NODE_USER, password: { env: 'TIDEGATE_TEST_PASSWORD' } } }),
    environment: { TIDEGATE_TEST_PASSWORD: ROOT_PASSWORD },
  })
  return { place: { etcd, proxies, publish }, node }
}

/** Makes decisions until the returned function is called. */
function decide(node: FleetNode) {
  let [made, failed, isEnded] = [0, 0, false]
  const deciding = (async () => {
    while (!isEnded) {
      await node.limit().then(
        () => made++,
        () => failed++,
      )
      await sleep(10)
    }
  })()
  return async () => {
    isEnded = true
    await deciding
    return { made, failed }
  }
}
