/** The statistics of Redis before and after a load: commands, bytes and processor time. */

import type { Redis } from 'ioredis'
import type { Ask } from './contenders.ts'

/** Costs per decision. */
export interface DecisionCost {
  readonly decisions: number
  readonly commands: number
  readonly commandsInScripts: number
  readonly bytesIn: number
  readonly bytesOut: number
  /** Bytes sent to each replica. */
  readonly bytesReplicated: number
  readonly redisCpuUs: number
  readonly processCpuUs: number
}

export interface Load {
  readonly name: string
  readonly connections: number
  /** Calls in flight on each connection. */
  readonly inFlight: number
  readonly keys: number
  /** The limit per day. */
  readonly perDay: number
}

const KEYS = 10_000
const PER_DAY = 1_000_000

/** One process, from one call at a time to busy, and one hot key. */
export const loads: readonly Load[] = [
  { name: '1 in flight', connections: 1, inFlight: 1, keys: KEYS, perDay: PER_DAY },
  { name: '256 in flight', connections: 1, inFlight: 256, keys: KEYS, perDay: PER_DAY },
  { name: 'one hot key', connections: 1, inFlight: 256, keys: 1, perDay: PER_DAY * 1_000 },
]

/** Many gateways on one server, and on one of many shards, which gets little from each. */
export const gatewayLoads: readonly Load[] = [
  {
    name: '16 connections, 8 in flight',
    connections: 16,
    inFlight: 8,
    keys: KEYS,
    perDay: PER_DAY,
  },
  {
    name: '64 connections, 1 in flight',
    connections: 64,
    inFlight: 1,
    keys: KEYS,
    perDay: PER_DAY,
  },
]

export const CONNECTIONS_MAX = 64

/** Three masters: one busy process, and many gateways with a few calls for each master. */
export const clusterLoads: readonly Load[] = [
  {
    name: '256 in flight on Cluster',
    connections: 1,
    inFlight: 256,
    keys: KEYS,
    perDay: PER_DAY,
  },
  {
    name: '16 clients, 32 in flight on Cluster',
    connections: 16,
    inFlight: 32,
    keys: KEYS,
    perDay: PER_DAY,
  },
]

/** Calls after which a caller yields; hot keys are answered without a wait. */
const TURN_CALLS = 100

/**
 * Measures a load. `asks` has one entry per connection; `masters` are connections for statistics.
 */
export function costOf(
  asks: readonly Ask[],
  { inFlight, keys }: Load,
  durationMs: number,
  masters: readonly Redis[],
): Promise<DecisionCost> {
  return costWhile(masters, async () => {
    const endMs = performance.now() + durationMs
    let decisions = 0
    const caller = async (ask: Ask) => {
      while (performance.now() < endMs) {
        const at = decisions++
        await ask(`user:${at % keys}`)
        if (at % TURN_CALLS === 0) await new Promise((resolve) => setImmediate(resolve))
      }
    }
    const callers = asks.flatMap((ask) => Array.from({ length: inFlight }, () => caller(ask)))
    await Promise.all(callers)
    return decisions
  })
}

/** The cost of a load that returns the number of its decisions. */
export async function costWhile(
  masters: readonly Redis[],
  load: () => Promise<number>,
): Promise<DecisionCost> {
  // Subtracts the cost of reading the statistics.
  const idle = difference(await snapshotOf(masters), await snapshotOf(masters))
  const before = await snapshotOf(masters)
  const own = process.cpuUsage()
  const decisions = await load()
  const { user, system } = process.cpuUsage(own)
  const spent = difference(idle, difference(before, await snapshotOf(masters)))
  // If there are scripts, they call all other commands.
  const hasScripts = spent.scripts > 0
  return {
    decisions,
    commands: (hasScripts ? spent.scripts : spent.others) / decisions,
    commandsInScripts: (hasScripts ? spent.others : 0) / decisions,
    bytesIn: spent.bytesIn / decisions,
    bytesOut: spent.bytesOut / decisions,
    bytesReplicated: spent.bytesReplicated / decisions,
    redisCpuUs: spent.cpuUs / decisions,
    processCpuUs: (user + system) / decisions,
  }
}

const figures = ['scripts', 'others', 'bytesIn', 'bytesOut', 'bytesReplicated', 'cpuUs'] as const

type Snapshot = Readonly<Record<(typeof figures)[number], number>>

async function snapshotOf(masters: readonly Redis[]): Promise<Snapshot> {
  const all = await Promise.all(masters.map(snapshot))
  return each((figure) => all.reduce((sum, one) => sum + one[figure], 0))
}

async function snapshot(client: Redis): Promise<Snapshot> {
  const text = await client.info('stats', 'cpu', 'commandstats', 'replication')
  const field = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(text)?.[1] ?? 0)
  const calls = [...text.matchAll(/^cmdstat_(\S+?):calls=(\d+)/gm)]
  const of = (isWanted: (name: string) => boolean) =>
    calls
      .filter(([, name = '']) => isWanted(name))
      .reduce((sum, [, , count]) => sum + Number(count), 0)
  return {
    scripts: of((name) => name.startsWith('eval')),
    others: of((name) => !/^(eval|info|script|replconf|ping|cluster)/.test(name)),
    bytesIn: field('total_net_input_bytes'),
    bytesOut: field('total_net_output_bytes'),
    bytesReplicated: field('master_repl_offset'),
    cpuUs: (field('used_cpu_sys') + field('used_cpu_user')) * 1e6,
  }
}

function difference(from: Snapshot, to: Snapshot): Snapshot {
  return each((figure) => to[figure] - from[figure])
}

function each(figureOf: (name: keyof Snapshot) => number): Snapshot {
  return Object.fromEntries(figures.map((name) => [name, figureOf(name)])) as Snapshot
}
