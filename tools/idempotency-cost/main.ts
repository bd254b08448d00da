/**
 * Measures what a new idempotency key costs a request through the gateway, with a limit in Redis:
 * `node tools/idempotency-cost/main.ts`. Requests with and without a key have the same method,
 * body, sender and upstream. Rounds alternate, and begin when the code is compiled. The processor
 * times of the gateway and of Redis are measured beside the throughput, because all processes share
 * the machine. `bare` is the floor: a gateway whose stage for keys only writes two values of the
 * same sizes to Redis (bare-stage.ts).
 */

import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { processorMs } from '../../test/support/processor-time.ts'
import { freePort } from '../../test/support/servers/ports.ts'
import { startRedis } from '../../test/support/servers/redis.ts'
import {
  makeFolder,
  removeFolder,
  ServerProcess,
} from '../../test/support/servers/server-process.ts'
import { until } from '../../test/support/servers/until.ts'

const ROUNDS = 7
const SECONDS = 1
const CONNECTIONS = 32

/** Seconds until most of the code of a mode is compiled. */
const WARM_UP_SECONDS = 6

const modes = ['none', 'new', 'bare', 'same'] as const

type Mode = (typeof modes)[number]

interface Round {
  readonly perSecond: number
  /** Processor time of the gateway for a request, and of Redis. */
  readonly cpuUs: number
  readonly redisUs: number
  readonly commands: number
}

const redis = await startRedis()
const folder = makeFolder()
const upstreamPort = await freePort()
const upstream = program('upstream.ts', [String(upstreamPort)])
const real = await startGateway('real', [])
const bare = await startGateway('bare', ['--import', join(import.meta.dirname, 'bare-gateway.ts')])

const rounds: Record<Mode, Round[]> = { none: [], new: [], bare: [], same: [] }
for (const mode of modes) await measure(mode, WARM_UP_SECONDS)
for (let at = 0; at < ROUNDS; at++) {
  for (const mode of at % 2 === 0 ? modes : modes.toReversed()) {
    rounds[mode].push(await measure(mode, SECONDS))
  }
}
for (const mode of modes) {
  const { perSecond, cpuUs, redisUs, commands } = medianOf(rounds[mode])
  console.info(`${mode}: ${perSecond.toFixed(0)}/s (${ratio(mode, 'perSecond')})`)
  console.info(`  gateway ${cpuUs.toFixed(0)} µs (${ratio(mode, 'cpuUs')})`)
  console.info(`  lowest: gateway ${lowest(mode, 'cpuUs')} µs, Redis ${lowest(mode, 'redisUs')} µs`)
  console.info(`  Redis ${redisUs.toFixed(0)} µs, ${commands.toFixed(2)} commands`)
}
for (const { process } of [real, bare]) await process.end()
await upstream.end()
await redis.stop()
removeFolder(folder)

function program(file: string, args: readonly string[]): ServerProcess {
  return new ServerProcess(process.execPath, [join(import.meta.dirname, file), ...args], folder)
}

async function startGateway(name: string, options: readonly string[]) {
  const port = await freePort()
  const file = join(folder, `${name}.json`)
  writeFileSync(file, JSON.stringify(policy(port)))
  const main = join(import.meta.dirname, '../../packages/server/src/main.ts')
  const args = [...options, main, 'gateway', '--config', file]
  process.env.BARE_REDIS_PORT = String(redis.port)
  const started = new ServerProcess(process.execPath, args, folder)
  await until('the gateway is ready', async () => {
    if (started.hasEnded) throw new Error(started.output)
    return (await fetch(`http://127.0.0.1:${port}/ready`)).ok
  })
  return { port, process: started }
}

function policy(port: number): object {
  const store = { mode: 'standalone', addresses: [`127.0.0.1:${redis.port}`], deadline: '1s' }
  return {
    ...{ store, log: { level: 'error' } },
    gateway: { listen: { host: '127.0.0.1', port } },
    upstreams: { backend: { targets: [`http://127.0.0.1:${upstreamPort}`] } },
    limits: [{ name: 'per-key', key: 'apiKey', otherwise: 'deny', limit: 1_000_000, per: '1s' }],
    idempotency: { ttl: '1m', replaysPerSecondMax: 1_000_000 },
  }
}

async function measure(mode: Mode, seconds: number): Promise<Round> {
  const load = join(import.meta.dirname, 'load.ts')
  const gateway = mode === 'bare' ? bare : real
  const before = await readings(gateway.process.pid)
  const args = [gateway.port, seconds, CONNECTIONS, mode === 'bare' ? 'new' : mode].map(String)
  const { stdout } = await promisify(execFile)(process.execPath, [load, ...args])
  const { answered, failed } = JSON.parse(stdout)
  if (failed > 0) throw new Error(`${failed} of ${answered} requests failed`)
  const after = await readings(gateway.process.pid)
  return {
    perSecond: answered / seconds,
    cpuUs: ((after.gatewayMs - before.gatewayMs) * 1_000) / answered,
    redisUs: ((after.redisMs - before.redisMs) * 1_000) / answered,
    commands: (after.commands - before.commands) / answered,
  }
}

async function readings(gatewayPid: number) {
  const stats = String(await redis.command('INFO', 'commandstats'))
  const [evalsha, mset] = [/cmdstat_evalsha:calls=(\d+)/, /cmdstat_mset:calls=(\d+)/]
  const commands = Number(evalsha.exec(stats)?.[1] ?? 0) + Number(mset.exec(stats)?.[1] ?? 0)
  return { gatewayMs: processorMs(gatewayPid), redisMs: processorMs(redis.pid), commands }
}

function medianOf(all: readonly Round[]): Round {
  const median = (field: keyof Round) =>
    all.map((round) => round[field]).toSorted((one, other) => one - other)[all.length >> 1] ?? 0
  const times = { cpuUs: median('cpuUs'), redisUs: median('redisUs') }
  return { perSecond: median('perSecond'), ...times, commands: median('commands') }
}

/** Other work on the machine only adds to a round, so that the lowest is the least disturbed. */
function lowest(mode: Mode, field: keyof Round): string {
  return Math.min(...rounds[mode].map((round) => round[field])).toFixed(0)
}

/** The median of the ratios of neighbouring rounds, with the smallest and the largest. */
function ratio(mode: Mode, field: keyof Round): string {
  const ratios = rounds[mode]
    .map((round, at) => round[field] / (rounds.none[at]?.[field] ?? Number.NaN))
    .toSorted((one, other) => one - other)
  const shown = [ratios[0], ratios[ratios.length >> 1], ratios.at(-1)].map((one) => one?.toFixed(2))
  return `${shown[1]} times none, ${shown[0]} to ${shown[2]}`
}
