/** Prints a plan as text: one column per load, then the assumptions. */

import { type Capacity, type Demand, leasedShare, type OwnCosts, type Supply } from './capacity.ts'
import {
  bytesPerKey,
  bytesPerLogEntry,
  gatewayUsPerRequest,
  hotUsPerDecision,
  type PlannedAlgorithm,
  replicatedBytesPerDecision,
  shardClients,
  shardDecisionsPerSecond,
  shardUsPerDecision,
  singleUsPerDecision,
  wireBytesPerDecision,
} from './measured-costs.ts'

export interface Plan {
  readonly demand: Omit<Demand, 'requestsPerSecond'>
  readonly supply: Supply
  readonly own: OwnCosts
  readonly capacities: readonly Capacity[]
}

/** The usual estimate: 10,000 requests per second and gateway, and 20 % headroom. */
export function usualGateways(requestsPerSecond: number): number {
  return Math.ceil((requestsPerSecond / 10_000) * 1.2)
}

/** The usual table, by 100,000 operations per second and shard. It has only these rows. */
export const usualShards: ReadonlyMap<number, number> = new Map([
  [10_000, 3],
  [100_000, 3],
  [1_000_000, 12],
  [10_000_000, 50],
])

export function planText(plan: Plan): string {
  return `${[...table(plan), '', ...assumptions(plan)].join('\n')}\n`
}

const LABEL_WIDTH = 34
const CELL_WIDTH = 12

function table({ capacities, supply }: Plan): string[] {
  const row = (label: string, cell: (capacity: Capacity) => string) =>
    label.padEnd(LABEL_WIDTH) + capacities.map((each) => cell(each).padStart(CELL_WIDTH)).join('')
  const replicas = count(supply.replicas, 'replica')
  return [
    row('requests per second', ({ requestsPerSecond }) => grouped(requestsPerSecond)),
    '',
    row('gateway cores', ({ gatewayCores }) => grouped(gatewayCores)),
    row(`gateways of ${count(supply.coresPerGateway, 'core')}`, (each) => grouped(each.gateways)),
    row('  by rule of thumb', (each) => grouped(usualGateways(each.requestsPerSecond))),
    '',
    row('Redis shards by CPU', ({ shardsByCpu }) => grouped(shardsByCpu)),
    row('             by memory', ({ shardsByMemory }) => grouped(shardsByMemory)),
    row('             by network', ({ shardsByNetwork }) => grouped(shardsByNetwork)),
    row('Redis shards', ({ shards }) => grouped(shards)),
    row('  by rule of thumb', (each) => usualShardsText(each)),
    row(`Redis servers, ${replicas} each`, ({ redisServers }) => grouped(redisServers)),
    '',
    row('shard utilisation: CPU', ({ shardUse }) => percent(shardUse.cpu)),
    row('                   memory', ({ shardUse }) => percent(shardUse.memory)),
    row('                   network', ({ shardUse }) => percent(shardUse.network)),
  ]
}

function usualShardsText({ requestsPerSecond }: Capacity): string {
  const shards = usualShards.get(requestsPerSecond)
  return shards === undefined ? '-' : grouped(shards)
}

function assumptions({ demand, supply, own }: Plan): string[] {
  const { algorithm, keys } = demand
  const limits = count(demand.limitsPerRequest, 'limit')
  const perCore = own.gatewayRequestsPerCore ?? 1e6 / gatewayUsPerRequest
  const memoryGb = supply.shardMemoryBytes / 1e9
  const networkGbps = (supply.shardNetworkBytesPerSecond * 8) / 1e9
  return [
    'Assumptions',
    `  ${algorithm}, ${limits} per request, ${grouped(keys)} keys per limit`,
    `  ${percent(leasedShare(demand))} of the decisions for hot keys, served from leases`,
    `  at most ${percent(supply.utilisation)} of CPU, memory and network in use at peak`,
    `  a gateway core: ${grouped(Math.round(perCore))} requests per second`,
    ...decisionLines(demand, own),
    `  a key: ${keyText(demand, own)} bytes in Redis`,
    `  a shard: one core, ${memoryGb} GB for data, ${networkGbps} Gbit/s`,
    'Measured by ./run.sh bench cost; tidegate plan --help lists the options that change this.',
  ]
}

function decisionLines({ algorithm }: Plan['demand'], own: OwnCosts): string[] {
  const given = own.redisDecisionsPerCore
  const givenUs = given === undefined ? undefined : Number((1e6 / given).toPrecision(3))
  const replicated = `${replicatedBytesPerDecision} to a replica`
  return [
    `  a decision on a single Redis server: ${givenUs ?? singleUsPerDecision[algorithm]} µs of CPU`,
    `  a decision on a shard of a Cluster: ${givenUs ?? shardUsPerDecision[algorithm]} µs of CPU`,
    ...(given === undefined ? [shardLine(algorithm)] : []),
    `  a decision for a hot key: ${hotUsPerDecision} µs of Redis CPU`,
    `  a decision on the wire: ${wireBytesPerDecision[algorithm]} bytes, ${replicated}`,
  ]
}

/** The load at which the shard was measured, as its cost depends on that. */
function shardLine(algorithm: PlannedAlgorithm): string {
  const rate = grouped(shardDecisionsPerSecond[algorithm])
  return `    measured at ${rate} per second and shard, from ${shardClients} processes`
}

function keyText({ algorithm, logEntries }: Plan['demand'], own: OwnCosts): string {
  if (own.bytesPerKey !== undefined) return grouped(own.bytesPerKey)
  if (algorithm !== 'slidingLog') return grouped(bytesPerKey[algorithm])
  const further = `${grouped(logEntries - 1)} × ${bytesPerLogEntry}`
  return `${bytesPerKey.slidingLog} and ${further}`
}

function count(number: number, noun: string): string {
  return `${grouped(number)} ${noun}${number === 1 ? '' : 's'}`
}

function grouped(value: number): string {
  return value.toLocaleString('en-US')
}

/** Below 1 % it has one decimal, so that a small value is not shown as 0. */
function percent(part: number): string {
  const value = part * 100
  if (value > 0 && value < 0.1) return '< 0.1 %'
  return `${value > 0 && value < 1 ? value.toFixed(1) : Math.round(value)} %`
}
