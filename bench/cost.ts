/** The cost of a decision for Redis and the network, and the memory of keys in both places. */

import { Redis } from 'ioredis'
import { type RedisServer, startRedis } from '../test/support/servers/redis.ts'
import { packageVersion } from './harness/machine.ts'
import type { Part, Run } from './harness/part.ts'
import { median, takeTurns } from './harness/rounds.ts'
import { costCluster } from './parts/cost/cluster.ts'
import {
  algorithmContenders,
  type Client,
  clusterContenders,
  decisionContenders,
  OURS,
  PEER,
  type RedisContender,
} from './parts/cost/contenders.ts'
import { gatewayCost } from './parts/cost/gateway.ts'
import { keysInProcess, keysInRedis } from './parts/cost/keys-report.ts'
import {
  CONNECTIONS_MAX,
  clusterLoads,
  costOf,
  type DecisionCost,
  gatewayLoads,
  type Load,
  loads,
} from './parts/cost/redis.ts'
import { measureShard } from './parts/cost/shard.ts'

export const part: Part = {
  name: 'cost',
  title: 'What a decision and a key cost',
  compares:
    'Commands, bytes on the wire and processor time of one Redis for each decision, by its own ' +
    'account (INFO), and the memory of a key in Redis and in a process: ours, ' +
    'rate-limiter-flexible, and the stores of express-rate-limit.',
  async run(run) {
    for (const name of peers) run.uses(name, packageVersion(name) ?? 'unknown')
    const server = await startRedis()
    run.onStop(() => server.stop())
    const client = new Redis(server.url)
    run.onStop(() => client.disconnect())
    const info = new Redis(server.url)
    run.onStop(() => info.disconnect())
    await decisions(run, server.url, info)
    run.table(await measureShard(run))
    await requests(run, server)
    await keysInRedis(run, client, info)
    await keysInProcess(run)
    remark(run)
  },
}

const peers = ['rate-limiter-flexible', 'express-rate-limit', 'rate-limit-redis']

interface Row {
  readonly name: string
  readonly isOurs: boolean
  readonly cells: readonly number[]
}

async function decisions(run: Run, url: string, info: Redis): Promise<void> {
  const clients = Array.from({ length: CONNECTIONS_MAX }, () => new Redis(url))
  for (const client of clients) run.onStop(() => client.disconnect())
  const rows: Row[] = []
  for (const load of loads) {
    rows.push(...(await measureLoad(run, load, decisionContenders(load.perDay), clients, [info])))
  }
  for (const load of gatewayLoads) {
    const contenders = [...decisionContenders(load.perDay), ...algorithmContenders(load.perDay)]
    rows.push(...(await measureLoad(run, load, contenders, clients, [info])))
  }
  const clientsMax = Math.max(...clusterLoads.map(({ connections }) => connections))
  const onCluster = await costCluster(run, clientsMax)
  for (const load of clusterLoads) {
    const contenders = clusterContenders(load.perDay)
    rows.push(...(await measureLoad(run, load, contenders, onCluster.clients, onCluster.masters)))
  }
  run.table({
    name: 'cost-decision',
    title: 'What one decision costs',
    columns: [
      { name: 'commands', digits: 5 },
      { name: 'commands in scripts', digits: 3 },
      { name: 'bytes to Redis', digits: 1 },
      { name: 'bytes from Redis', digits: 1 },
      { name: 'bytes to a replica', digits: 1 },
      { name: 'µs of Redis', digits: 3 },
      { name: 'µs of the process', digits: 2 },
    ],
    rows,
  })
}

async function measureLoad(
  run: Run,
  load: Load,
  contenders: readonly RedisContender[],
  clients: readonly Client[],
  masters: readonly Redis[],
): Promise<Row[]> {
  const durationMs = run.isQuick ? 40 : 500
  const measured = []
  for (const { name, on } of contenders) {
    const asks = await Promise.all(clients.slice(0, load.connections).map(on))
    measured.push({ name, run: () => costOf(asks, load, durationMs, masters) })
  }
  const figures = await takeTurns(run, load.name, measured, run.isQuick ? 1 : 3)
  const [ours, peer] = [figures.get(OURS), figures.get(PEER)]
  if (ours !== undefined && peer !== undefined) compareLoad(run, load, ours, peer)
  return contenders.map(({ name, isOurs }) => {
    return { name: `${name}, ${load.name}`, isOurs, cells: cellsOf(figures.get(name) ?? []) }
  })
}

function cellsOf(rounds: readonly DecisionCost[]): number[] {
  const of = (field: keyof DecisionCost) => median(rounds.map((round) => round[field]))
  return [
    of('commands'),
    of('commandsInScripts'),
    of('bytesIn'),
    of('bytesOut'),
    of('bytesReplicated'),
    of('redisCpuUs'),
    of('processCpuUs'),
  ]
}

/** Duration of each of two loads; the first one warms up. */
const GATEWAY_SECONDS = 4

async function requests(run: Run, server: RedisServer): Promise<void> {
  if (run.isQuick) return run.skipped('the gateway: only in a full run, as it starts slowly')
  run.progress('requests through the gateway')
  const cost = await gatewayCost(run, server, GATEWAY_SECONDS)
  if (cost === undefined) return
  run.table({
    name: 'cost-request',
    title: 'What a request through the gateway costs, with a limit per API key in Redis',
    columns: [
      { name: 'requests' },
      { name: 'µs of the gateway', digits: 1 },
      { name: 'requests per core and second', digits: 0 },
      { name: 'µs of Redis', digits: 2 },
    ],
    rows: [
      {
        name: 'one process, 64 connections, 1,000 keys',
        isOurs: true,
        cells: [cost.requests, cost.gatewayCpuUs, 1e6 / cost.gatewayCpuUs, cost.redisCpuUs],
      },
    ],
  })
}

function compareLoad(
  run: Run,
  { name }: Load,
  ours: readonly DecisionCost[],
  peer: readonly DecisionCost[],
): void {
  const roundsOf = (figure: (cost: DecisionCost) => number) =>
    ours.map((own, at) => ({ ours: figure(own), peer: figure(peer[at] as DecisionCost) }))
  const slug = name.toLowerCase().replaceAll(/\W+/g, '-')
  const common = { ours: OURS, peer: PEER, isLessBetter: true, reason: reasons[name] ?? '' }
  run.compared({
    ...common,
    name: `cost-redis-cpu-${slug}`,
    what: `processor time of Redis, ${name}`,
    unit: 'µs per decision',
    rounds: roundsOf(({ redisCpuUs }) => redisCpuUs),
  })
  run.compared({
    ...common,
    name: `cost-wire-${slug}`,
    what: `bytes on the wire, ${name}`,
    unit: 'bytes per decision',
    rounds: roundsOf(({ bytesIn, bytesOut }) => bytesIn + bytesOut),
  })
}

/** Reasons for the loads in which ours costs more. */
const reasons: Readonly<Record<string, string>> = {
  '1 in flight':
    'Alone, a decision of ours reads, computes and writes a bucket that refills continuously; ' +
    'the peer increments a number, and answers with less.',
  '16 connections, 8 in flight':
    'Few calls of a process travel together; then a bucket costs Redis a little more than a ' +
    'number that is incremented.',
  '64 connections, 1 in flight':
    'With one call at a time on each connection there is nothing to gather, as if each were alone.',
  '256 in flight on Cluster':
    'A replica is sent the whole bucket, where the peer’s is told to increment, and keys on ' +
    'Cluster have a hash tag.',
}

function remark(run: Run): void {
  for (const sentences of notes) run.note(sentences.join(' '))
}

const notes: readonly (readonly string[])[] = [
  [
    'Commands are what clients send; commands in scripts are those that the scripts call. With',
    '256 calls in flight, many decisions travel in one command of ours; on Cluster fewer, those of',
    'one bucket. A hot key is answered by the process from a block of units, so that Redis sees',
    'few commands of it. Bytes from Redis contain those to its replica.',
  ],
  [
    'One call in flight is where ours costs Redis the most against a counter: it reads, computes',
    'and writes a state that refills continuously, where the others only increment a number. Of',
    'the time of Redis for a single call most is the system’s, for reading and writing a socket.',
  ],
  [
    'Bytes of a key in Redis are the growth of used_memory, so they contain the table of keys,',
    'which doubles at powers of two; MEMORY USAGE does not count that table. A sliding log grows',
    'by 16 bytes with each further request that it admits.',
  ],
  [
    'In a process, bytes are what is in use after garbage collection. Our memory store takes',
    'pages of 256 counters, so a few keys weigh more each than many. A sliding log has two arrays',
    'of its own for every key, which is the most of all here. rate-limiter-flexible keeps a timer',
    'for every key.',
  ],
]
