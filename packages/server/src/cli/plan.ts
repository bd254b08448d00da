/** `tidegate plan`: computes how many gateways and Redis shards a load needs. */

import { parseArgs } from 'node:util'
import { capacityFor } from '../capacity/capacity.ts'
import { type PlannedAlgorithm, plannedAlgorithms } from '../capacity/measured-costs.ts'
import { type Plan, planText } from '../capacity/report.ts'
import { type Command, exitCodes, UsageError } from './terminal.ts'

const options = {
  rps: { type: 'string', multiple: true, default: ['100k', '1M', '10M'] as string[] },
  keys: { type: 'string', default: '10M' },
  algorithm: { type: 'string', default: 'tokenBucket' },
  'limits-per-request': { type: 'string', default: '1' },
  hot: { type: 'string', default: '0' },
  'log-entries': { type: 'string', default: '100' },
  utilisation: { type: 'string', default: '60' },
  utilization: { type: 'string' },
  replicas: { type: 'string', default: '1' },
  'cores-per-gateway': { type: 'string', default: '2' },
  'shard-memory-gb': { type: 'string', default: '8' },
  'shard-network-gbps': { type: 'string', default: '1' },
  'gateway-rps-per-core': { type: 'string' },
  'redis-decisions-per-core': { type: 'string' },
  'bytes-per-key': { type: 'string' },
  json: { type: 'boolean', default: false },
} as const

export const planCommand: Command = {
  name: 'plan',
  summary: 'Compute how many gateways and Redis shards a load needs',
  help: `Usage: tidegate plan [OPTIONS]

Computes the gateways and Redis shards for a load from measured costs, and starts nothing. Numbers
may end in k or M, for thousands and millions.

  --rps N                       Requests per second; may be repeated.
                                Default: 100k, 1M and 10M
  --keys N                      Keys per limit that are in use at the same time. Default: 10M
  --algorithm NAME              ${plannedAlgorithms.join(', ')}.
                                Default: tokenBucket
  --limits-per-request N        Limits that apply to a request, 1 to 64. Default: 1
  --hot PERCENT                 Share of requests for hot keys, served from leases. Default: 0
  --log-entries N               Entries per key of slidingLog within its period. Default: 100

  --utilisation PERCENT         Share of CPU, memory and network in use at peak. Default: 60.
                                Also --utilization
  --replicas N                  Replicas of each shard, 0 to 5. Default: 1
  --cores-per-gateway N         Cores of each gateway. Default: 2
  --shard-memory-gb N           Memory for data of each shard. Default: 8
  --shard-network-gbps N        Network of each shard in Gbit/s. Default: 1

  --gateway-rps-per-core N      Requests per second of a gateway core, measured on your machines
  --redis-decisions-per-core N  Decisions per second of a Redis core, measured on your machines
  --bytes-per-key N             Memory of a key in Redis, measured on your machines

  --json                        Print JSON
`,
  async run(args, terminal) {
    const values = parse(args)
    const plan = planOf(values)
    terminal.stdout(values.json ? `${JSON.stringify(plan, null, 2)}\n` : planText(plan))
    return exitCodes.ok
  },
}

function parse(args: readonly string[]) {
  return parseArgs({ args: [...args], options }).values
}

type Flag = Exclude<keyof typeof options, 'rps' | 'json' | 'algorithm'>

function planOf(values: ReturnType<typeof parse>): Plan {
  const number = (flag: Flag, min: number, max: number) =>
    numberOf(flag, values[flag] ?? '', { min, max, isWhole: true })
  const share = (flag: Flag, min: number, max: number) =>
    numberOf(flag, values[flag] ?? '', { min, max, isWhole: false }) / 100
  const size = (flag: Flag, min: number, max: number) =>
    numberOf(flag, values[flag] ?? '', { min, max, isWhole: false })
  const given = (flag: Flag) => values[flag] !== undefined
  const demand = {
    keys: number('keys', 1, KEYS_MAX),
    algorithm: algorithmOf(values.algorithm),
    limitsPerRequest: number('limits-per-request', 1, 64),
    hotShare: share('hot', 0, 100),
    logEntries: number('log-entries', 1, 1_000_000),
  }
  const supply = {
    utilisation: share(given('utilization') ? 'utilization' : 'utilisation', 1, 100),
    replicas: number('replicas', 0, 5),
    coresPerGateway: number('cores-per-gateway', 1, 1_024),
    shardMemoryBytes: size('shard-memory-gb', 0.1, 10_000) * 1e9,
    shardNetworkBytesPerSecond: (size('shard-network-gbps', 0.01, 1_000) * 1e9) / 8,
  }
  const own = {
    ...(given('gateway-rps-per-core') && {
      gatewayRequestsPerCore: number('gateway-rps-per-core', 1, PER_CORE_MAX),
    }),
    ...(given('redis-decisions-per-core') && {
      redisDecisionsPerCore: number('redis-decisions-per-core', 1, PER_CORE_MAX),
    }),
    ...(given('bytes-per-key') && { bytesPerKey: number('bytes-per-key', 1, 1_000_000) }),
  }
  const capacities = values.rps.map((text) => {
    const requestsPerSecond = numberOf('rps', text, { min: 1, max: RPS_MAX, isWhole: true })
    return capacityFor({ ...demand, requestsPerSecond }, supply, own)
  })
  return { demand, supply, own, capacities }
}

/** Larger than any real load, and small enough that the arithmetic stays exact. */
const RPS_MAX = 1_000_000_000
const KEYS_MAX = 1_000_000_000_000
const PER_CORE_MAX = 100_000_000

const factors: Readonly<Record<string, number>> = { '': 1, k: 1e3, m: 1e6 }

interface Allowed {
  readonly min: number
  readonly max: number
  readonly isWhole: boolean
}

function numberOf(flag: string, text: string, { min, max, isWhole }: Allowed): number {
  const [, digits = '', unit = ''] = /^(\d+(?:\.\d+)?)([kKmM]?)$/.exec(text) ?? []
  // Rounded because 1.1 × 1,000,000 is not a whole number in floating point.
  const value = Number((Number(digits) * (factors[unit.toLowerCase()] ?? 1)).toPrecision(15))
  if (digits !== '' && value >= min && value <= max && (!isWhole || Number.isInteger(value))) {
    return value
  }
  const kind = isWhole ? 'a whole number' : 'a number'
  const range = `${min.toLocaleString('en-US')} to ${max.toLocaleString('en-US')}`
  const units = max >= 1_000 ? ', such as 500, 20k or 1M' : ''
  throw new UsageError(`--${flag} ${text}: allowed is ${kind} from ${range}${units}`)
}

function algorithmOf(text: string): PlannedAlgorithm {
  const found = plannedAlgorithms.find((name) => name === text)
  if (found !== undefined) return found
  throw new UsageError(`--algorithm ${text}: allowed is one of ${plannedAlgorithms.join(', ')}`)
}
