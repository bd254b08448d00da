/**
 * Nodes of two regions with counters in a real Redis. Messages go from node to node in this
 * process; those of a region may reach a node that does not lead.
 */

import { type Decision, fixedWindow } from 'tidegate'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type RedisServer, startRedis } from '../../../../../test/support/servers/redis.ts'
import { until } from '../../../../../test/support/servers/until.ts'
import { createStore } from '../../stores/create-store.ts'
import { regionLimits } from '../region-limits.ts'
import { RegionStore } from '../region-store.ts'
import { createTopology } from '../topology.ts'
import { SharedExchange } from './shared-exchange.ts'

const LIMIT = 200
const limit = fixedWindow({ limit: LIMIT, per: 'month' })
const section = { list: { eu: { endpoint: 'eu:1', share: 1 }, us: { endpoint: 'us:1', share: 1 } } }
const policy = { limits: [{ name: 'quota', regions: { mode: 'shared' as const } }] }

let server: RedisServer

beforeAll(async () => {
  server = await startRedis()
})

afterAll(() => server?.stop())

interface Node {
  readonly store: RegionStore
  readonly exchange: SharedExchange
  ask(key: string, calls: number): Promise<readonly Decision[]>
  close(): Promise<void>
}

/** Where messages to a region go; none while it is cut off. */
type Routes = Map<string, Node>

let worlds = 0

function newRoutes(): { routes: Routes; prefix: string } {
  return { routes: new Map(), prefix: `t${worlds++}` }
}

async function startNode(self: string, routes: Routes, prefix: string): Promise<Node> {
  const addresses = [`${server.host}:${server.port}`]
  const settings = { mode: 'standalone' as const, addresses, prefix: `${prefix}${self}` }
  const opened = createStore(settings, { deadlineMs: 5_000 })
  await opened.ready()
  const topology = createTopology(self, section)
  const limits = regionLimits(policy as never, topology)
  const store = new RegionStore(opened.store, topology, new Map(), limits)
  const exchange = new SharedExchange(
    {
      ...{ topology, admitted: store.admitted, open: () => opened.background() },
      send: (to, body) =>
        void routes
          .get(to)
          ?.exchange.handler(self, body)
          .catch(() => undefined),
    },
    limits,
  )
  exchange.start()
  let isClosed = false
  const node: Node = {
    store,
    exchange,
    ask(key, calls) {
      const one = async () =>
        (await store.charge([{ name: 'quota', key, limit, cost: 1 }], 'all'))[0]
      return Promise.all(Array.from({ length: calls }, one)) as Promise<readonly Decision[]>
    },
    async close() {
      if (isClosed) return
      isClosed = true
      await exchange.close()
      await opened.close()
    },
  }
  onTestFinished(() => node.close())
  return node
}

async function untilLeads(node: Node): Promise<void> {
  await until('it leads', () => node.exchange.state()?.isExchanger === true)
}

const admittedOf = (decisions: readonly Decision[]) =>
  decisions.filter(({ allowed }) => allowed).length

/** Asks until the region has as many units as it can get, and returns their number. */
async function askAll(node: Node, key: string, least: number): Promise<number> {
  let admitted = 0
  await until(`${least} units are admitted`, async () => {
    admitted += admittedOf(await node.ask(key, LIMIT))
    return admitted >= least
  })
  return admitted
}

describe('two regions', () => {
  test('reach the limit through nodes that do not lead, and not more', async () => {
    const { routes, prefix } = newRoutes()
    const [eu, us] = [await startNode('eu', routes, prefix), await startNode('us', routes, prefix)]
    await Promise.all([untilLeads(eu), untilLeads(us)])
    const second = await startNode('us', routes, prefix)
    expect(admittedOf(await second.ask('a', LIMIT))).toBe(LIMIT / 2)
    routes.set('eu', eu).set('us', second)
    const rest = await askAll(second, 'a', 0.4 * LIMIT)
    expect(rest).toBeLessThanOrEqual(LIMIT / 2)
    expect(second.exchange.state()).toMatchObject({ isExchanger: false })
    expect(us.exchange.state()).toMatchObject({ isExchanger: true, keys: 1 })
    // The other region knows of them: less than a tenth is left.
    expect(admittedOf(await eu.ask('a', LIMIT))).toBeLessThanOrEqual(0.1 * LIMIT)
  })

  test('have their shares while no message arrives', async () => {
    const { routes, prefix } = newRoutes()
    const [eu, us] = [await startNode('eu', routes, prefix), await startNode('us', routes, prefix)]
    await Promise.all([untilLeads(eu), untilLeads(us)])
    expect(admittedOf(await eu.ask('a', LIMIT))).toBe(LIMIT / 2)
    expect(admittedOf(await us.ask('a', LIMIT))).toBe(LIMIT / 2)
    routes.set('eu', eu).set('us', us)
    // A denial that counts of the other region may end has a short time to retry.
    let more = 0
    await until('both know that the limit is used up', async () => {
      const decisions = (await Promise.all([eu.ask('a', 1), us.ask('a', 1)])).flat()
      more += admittedOf(decisions)
      return decisions.every(({ retryAfterMs }) => retryAfterMs > 5_000)
    })
    expect(more).toBe(0)
  })
})

describe('an exchanger', () => {
  test('continues with the counts of the one before', async () => {
    const { routes, prefix } = newRoutes()
    const [eu, us] = [await startNode('eu', routes, prefix), await startNode('us', routes, prefix)]
    routes.set('eu', eu).set('us', us)
    await Promise.all([untilLeads(eu), untilLeads(us)])
    const first = await askAll(us, 'a', 0.6 * LIMIT)
    const next = await startNode('us', routes, prefix)
    routes.set('us', next)
    await us.close()
    await untilLeads(next)
    const rest = await askAll(next, 'a', 0.9 * LIMIT - first)
    expect(first + rest).toBeLessThanOrEqual(LIMIT)
    expect(next.exchange.state()?.keys).toBe(1)
  })

  test('that another one replaced gives nothing back', async () => {
    const { routes, prefix } = newRoutes()
    const [eu, us] = [await startNode('eu', routes, prefix), await startNode('us', routes, prefix)]
    routes.set('eu', eu).set('us', us)
    await Promise.all([untilLeads(eu), untilLeads(us)])
    // The term is that of another process from now on, and its lead does not end.
    await us.store.charge([{ name: 'quota', key: 'a', limit, cost: 1 }], 'all')
    const scope = createTopology('us', section).fingerprint.toString('hex')
    const key = (name: string) => `${prefix}us:{x}:${scope}:${name}`
    await server.command('SET', key('leader'), 'another')
    await server.command('INCR', key('term'))
    await until('it no longer leads', () => us.exchange.state()?.isExchanger === false)
    expect(admittedOf(await us.ask('b', LIMIT))).toBe(LIMIT / 2)
    await until('its units wait for the exchanger', async () => {
      return Number(await server.command('LLEN', key('reports'))) > 0
    })
    expect(admittedOf(await us.ask('b', LIMIT))).toBe(0)
  })
})

describe('decisions', () => {
  test('are in units, and a denial that may end soon has a short time to retry', async () => {
    const { routes, prefix } = newRoutes()
    const us = await startNode('us', routes, prefix)
    const [first] = await us.ask('a', 1)
    expect(first).toMatchObject({ allowed: true, limit: LIMIT, granted: 1, remaining: LIMIT - 2 })
    await us.ask('a', LIMIT)
    const [denied] = await us.ask('a', 1)
    expect(denied).toMatchObject({ allowed: false, limit: LIMIT, granted: 0, remaining: 0 })
    expect(denied?.retryAfterMs).toBeLessThanOrEqual(1_000)
  })

  test('refunds and reservations are in units too', async () => {
    const { routes, prefix } = newRoutes()
    const us = await startNode('us', routes, prefix)
    const counter = { name: 'quota', key: 'a', limit }
    await us.store.charge([{ ...counter, cost: LIMIT / 2 }], 'all')
    await us.store.adjust([{ ...counter, units: -10 }])
    expect(admittedOf(await us.ask('a', LIMIT))).toBe(10)
    await us.store.reset([counter])
    const hold = { id: 'one', ttlMs: 60_000 }
    const held = await us.store.charge([{ ...counter, cost: LIMIT / 2, hold }], 'all')
    expect(held).toMatchObject([{ allowed: true, granted: LIMIT / 2 }])
    expect(admittedOf(await us.ask('a', 1))).toBe(0)
    await us.store.adjust([{ ...counter, units: 90, release: 'one' }])
    expect(admittedOf(await us.ask('a', LIMIT))).toBe(LIMIT / 2 - 90)
  })
})
