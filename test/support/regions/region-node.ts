/** A node of a region in this process: the store that a service with this policy would have. */

import type { Decision } from 'tidegate'
import { makeLimit } from '../../../packages/server/src/limits/compile/make-limit.ts'
import { parsePolicy } from '../../../packages/server/src/policy/read-policy.ts'
import { Regions } from '../../../packages/server/src/regions/regions.ts'
import { createStore } from '../../../packages/server/src/stores/create-store.ts'
import { storeSettings } from '../../../packages/server/src/stores/store-settings.ts'
import { until } from '../servers/until.ts'
import { type RegionName, type RegionWorld, regionNames } from './region-world.ts'

export interface RegionNode {
  readonly regions: Regions
  /** Charges a unit of a limit to a key. */
  ask(limit: string, key: string, cost?: number): Promise<Decision>
  stop(): Promise<void>
}

const secrets = { 'link-token': 'a-token-for-tests-of-regions' }

export async function startRegionNode(
  world: RegionWorld,
  region: RegionName,
  limits: readonly object[],
): Promise<RegionNode> {
  const parsed = parsePolicy(JSON.parse(JSON.stringify({ ...world.sections(region), limits })))
  if (!parsed.ok) throw new Error(parsed.problems.map(({ message }) => message).join('\n'))
  const { document } = parsed
  const { regions: section } = document
  if (section === undefined) throw new Error('the policy has no regions')
  const readSecret = () => secrets['link-token']
  const opened = createStore(storeSettings(document.store, readSecret, world.folder), {
    deadlineMs: document.store.deadline ?? 1_000,
  })
  await opened.ready()
  const options = { document, store: opened.store, readSecret, folder: world.folder }
  const regions = new Regions(
    { ...options, openExchange: () => opened.background(), onPeer: () => undefined },
    region,
    section,
  )
  await regions.start()
  const made = new Map(document.limits.map((limit) => [limit.name, makeLimit(limit)]))
  return {
    regions,
    async ask(name, key, cost = 1) {
      const limit = made.get(name)
      if (limit === undefined) throw new Error(`no limit ${name}`)
      return new Promise<Decision>((resolve, reject) => {
        const decision = regions.store.chargeOne({ name, key, limit }, cost, { resolve, reject })
        if (decision !== undefined) resolve(decision)
      })
    },
    async stop() {
      await regions.store.giveBack()
      await regions.close()
      await opened.close()
    },
  }
}

/** A node in each region, all of which reach one another. */
export async function startRegionNodes(
  world: RegionWorld,
  limits: readonly object[],
): Promise<Readonly<Record<RegionName, RegionNode>>> {
  const nodes = await Promise.all(regionNames.map((name) => startRegionNode(world, name, limits)))
  await untilConnected(nodes)
  return Object.fromEntries(nodes.map((node, at) => [regionNames[at], node])) as never
}

export async function untilConnected(nodes: readonly RegionNode[]): Promise<void> {
  await until('all regions reach one another', () =>
    nodes.every(({ regions }) => regions.state().peers.every(({ isUp }) => isUp)),
  )
}
