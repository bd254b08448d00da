/**
 * The rate limit service: calls per second on one process and one Redis. h2load sends one value
 * repeatedly; for 10,000 values there is a client of our own, which shares the processor with the
 * services. Also the cost of ten descriptors in a call.
 */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { request, rlsClient } from '../test/e2e/rls/rls-client.ts'
import { startRedis } from '../test/support/servers/redis.ts'
import { makeFolder, removeFolder } from '../test/support/servers/server-process.ts'
import type { Program } from '../tools/install/install-program.ts'
import { ratelimit } from '../tools/install/programs.ts'
import { programVersion } from './harness/machine.ts'
import type { Comparison, Part, Run } from './harness/part.ts'
import { type Contender, median, takeTurns } from './harness/rounds.ts'
import { callsOver, h2load, type Load } from './parts/rls/calls.ts'
import { startBare, startOurs, writeConfig } from './parts/rls/processes.ts'
import type { RlsService } from './parts/rls/service.ts'
import { gubernator, startGubernator } from './peers/gubernator.ts'
import { limitador, startLimitador } from './peers/limitador.ts'
import { peerProgram } from './peers/peer-program.ts'
import { startRatelimit } from './peers/ratelimit.ts'

const QUICK = { rounds: 2, seconds: 0.4, calls: 200 }
const FULL = { rounds: 5, seconds: 2, calls: 2_000 }
const VALUES = 10_000

const TIDEGATE = 'Tidegate'
const NODE = 'Tidegate on node:http2'
const BARE = 'bare node:http2, which only answers'

export const part: Part = {
  name: 'rls',
  title: 'The rate limit service for Envoy',
  compares:
    'ShouldRateLimit with one descriptor, counted in one Redis: ours, envoyproxy/ratelimit and ' +
    'others, and a bare node:http2 server that answers the same bytes without doing anything. ' +
    'Four connections with 32 calls in flight each.',
  async run(run) {
    const folder = makeFolder()
    run.onStop(() => removeFolder(folder))
    const services = await startServices(run, folder)
    const one = await oneValue(run, folder, services)
    const many = await manyValues(run, services)
    report(run, services, one, many)
    compare(run, 'one value', one)
    const perSecond = [...many].map(([name, loads]): [string, number[]] => {
      return [name, loads.map((load) => load.perSecond)]
    })
    compare(run, '10,000 values', new Map(perSecond))
    await descriptors(run, services)
  },
}

async function startServices(run: Run, folder: string): Promise<RlsService[]> {
  const redis = await startRedis()
  run.onStop(() => redis.stop())
  const address = `${redis.host}:${redis.port}`
  const directory = writeConfig(folder)
  run.progress('the services start')
  const services = [
    await startOurs(run, TIDEGATE, directory, address, 'own'),
    await startOurs(run, NODE, directory, address, 'node'),
    await startBare(run, BARE),
  ]
  const peers: [Program, (program: string) => Promise<RlsService>][] = [
    [ratelimit, (program) => startRatelimit(run, program, folder, address)],
    [limitador, (program) => startLimitador(run, program, folder, address)],
    [gubernator, (program) => startGubernator(run, program, folder)],
  ]
  for (const [peer, start] of peers) {
    const program = await peerProgram(run, peer)
    if (program === undefined) continue
    try {
      services.push(await start(program))
    } catch (error) {
      run.skipped(`${peer.name}: it did not start or does not count rightly: ${error}`)
    }
  }
  const has = (peer: Program) => services.some(({ name }) => name === peer.name)
  if (has(ratelimit)) run.note('envoyproxy/ratelimit uses all cores, Tidegate one.')
  if (has(gubernator))
    run.note('Gubernator counts in its own memory, not in Redis, and with a protocol of its own.')
  return services
}

async function oneValue(
  run: Run,
  folder: string,
  services: readonly RlsService[],
): Promise<Map<string, number[]>> {
  const version = programVersion('h2load')
  if (version === undefined) {
    run.skipped('one value: h2load is not installed (apt-get install nghttp2-client)')
    return new Map()
  }
  run.uses('h2load', version)
  const { rounds, seconds } = run.isQuick ? QUICK : FULL
  const contenders: Contender<number>[] = []
  for (const service of services) {
    const file = join(folder, `body-${service.port}`)
    const body = service.body('t0')
    writeFileSync(file, body)
    const { replyBytes } = await callsOver(service, [body], 0.1)
    const load = () => h2load(service, file, replyBytes, seconds)
    contenders.push({ name: service.name, run: load })
  }
  return takeTurns(run, 'one value', contenders, rounds)
}

function manyValues(run: Run, services: readonly RlsService[]): Promise<Map<string, Load[]>> {
  const { rounds, seconds } = run.isQuick ? QUICK : FULL
  const contenders = services.map((service) => {
    const bodies = Array.from({ length: VALUES }, (_, at) => service.body(`t${at}`))
    return { name: service.name, run: () => callsOver(service, bodies, seconds) }
  })
  return takeTurns(run, '10,000 values', contenders, rounds)
}

function report(
  run: Run,
  services: readonly RlsService[],
  one: ReadonlyMap<string, readonly number[]>,
  many: ReadonlyMap<string, readonly Load[]>,
): void {
  const oneOf = (name: string) => (one.has(name) ? median(one.get(name) ?? []) : undefined)
  const manyOf = (name: string, figure: keyof Load) =>
    median((many.get(name) ?? []).map((load) => load[figure]))
  const figures = ['perSecond', 'p50Ms', 'p99Ms'] as const
  run.table({
    name: 'rls',
    title: 'Calls per second; the latencies are those over 10,000 values',
    columns: [
      { name: 'one value' },
      { name: '10,000 values' },
      { name: 'p50 ms', digits: 2 },
      { name: 'p99 ms', digits: 2 },
    ],
    rows: services.map(({ name, isOurs }) => {
      return { name, isOurs, cells: [oneOf(name), ...figures.map((f) => manyOf(name, f))] }
    }),
  })
  run.chart({
    name: 'rls',
    title: 'Calls per second of a rate limit service',
    kind: 'bars',
    xLabel: '',
    yLabel: 'calls per second, four connections with 32 in flight each',
    series: services.map(({ name, isOurs }) => {
      const points = [
        { x: 'one value', y: oneOf(name) },
        { x: '10,000 values', y: manyOf(name, 'perSecond') },
      ]
      return {
        name,
        isOurs,
        points: points.flatMap(({ x, y }) => (y === undefined ? [] : { x, y })),
      }
    }),
  })
}

/** The aims hold for one value; with many values, a call has to wait for Redis. */
const peers: readonly (Pick<Comparison, 'name' | 'peer'> & { aim?: number; reason?: string })[] = [
  { name: 'bare', peer: BARE, aim: 3, reason: 'It only answers, where ours waits for Redis.' },
  { name: 'ratelimit', peer: ratelimit.name, aim: 4 },
  { name: 'limitador', peer: limitador.name },
  {
    name: 'gubernator',
    peer: gubernator.name,
    reason: 'It asks no Redis: it counts in its own memory.',
  },
]

function compare(
  run: Run,
  what: 'one value' | '10,000 values',
  figures: ReadonlyMap<string, readonly number[]>,
): void {
  const isOne = what === 'one value'
  for (const { name, peer, aim, reason } of peers) {
    const [ours, theirs] = [figures.get(TIDEGATE), figures.get(peer)]
    if (ours === undefined || theirs === undefined) continue
    run.compared({
      name: `rls-${name}-${isOne ? 'one' : 'values'}`,
      what,
      ours: TIDEGATE,
      peer,
      unit: 'calls per second',
      rounds: ours.map((figure, at) => ({ ours: figure, peer: theirs[at] ?? Number.NaN })),
      ...(isOne && aim !== undefined && { aim }),
      ...(reason !== undefined && { reason }),
    })
  }
}

/** Calls one after the other, with ten descriptors and with one, in turn. */
async function descriptors(run: Run, services: readonly RlsService[]): Promise<void> {
  const ours = services.find(({ name }) => name === TIDEGATE)
  if (ours === undefined) return
  run.progress('ten descriptors in a call')
  const client = rlsClient(ours.port)
  const askMs = async (count: number, call: number) => {
    const keys = Array.from({ length: count }, (_, own) => [`tenant=c${call}-${own}`])
    const startMs = performance.now()
    await client.ask(request('bench', ...keys))
    return performance.now() - startMs
  }
  const { rounds: count, calls } = run.isQuick ? QUICK : FULL
  const rounds: { ours: number; peer: number }[] = []
  for (let round = 0; round < count; round++) {
    const timesMs: [number[], number[]] = [[], []]
    for (let call = 0; call < calls / count; call++) {
      timesMs[0].push(await askMs(1, round * calls + call))
      timesMs[1].push(await askMs(10, round * calls + call))
    }
    rounds.push({ ours: median(timesMs[1]), peer: median(timesMs[0]) })
  }
  client.close()
  run.compared({
    name: 'rls-descriptors',
    what: 'one call after the other, each with new values',
    ours: 'ten descriptors',
    peer: 'one descriptor',
    unit: 'milliseconds',
    isLessBetter: true,
    rounds,
    aim: 0.5,
    reason: 'Ten descriptors are ten counters; Redis is asked once for all of them.',
  })
}
