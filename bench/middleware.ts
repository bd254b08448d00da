/**
 * Servers with our middleware, with the middlewares of peers, and without any: the framework alone
 * is the most that a middleware could reach.
 */

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { startRedis } from '../test/support/servers/redis.ts'
import { forkReady } from './harness/child.ts'
import { type CoreOfItsOwn, moveToCore, setCoreAside } from './harness/cores.ts'
import { packageVersion, redisVersion } from './harness/machine.ts'
import type { Part, Run } from './harness/part.ts'
import { median, takeTurns } from './harness/rounds.ts'
import { type HttpFigure, type HttpLoad, httpLoad } from './parts/load/http-load.ts'
import type { MiddlewarePlan } from './parts/middleware/plan.ts'

export const part: Part = {
  name: 'middleware',
  title: 'Servers with a middleware',
  compares:
    'Express and Fastify servers that admit everything, with the middleware of Tidegate and ' +
    'with that of others: counters in memory with the client address as key, and counters on ' +
    'one Redis server with an API key of a thousand as key. Each server is a process of its ' +
    'own on a core of its own, both send the same kinds of headers, and 32 connections ask as ' +
    'fast as they can. Servers without a limiter show the share of the framework.',
  async run(run) {
    run.uses('Redis', redisVersion())
    for (const name of packages) run.uses(name, packageVersion(name) ?? 'unknown')
    const core = setCoreAside(run)
    const redis = await startRedis()
    run.onStop(() => redis.stop())
    const load = httpLoad(run)
    const found: Found[] = []
    for (const situation of situations) {
      found.push(await compareServers(run, situation, load, { core, redisUrl: redis.url }))
    }
    report(run, found)
  },
}

interface Situation {
  readonly name: string
  readonly what: string
  readonly framework: MiddlewarePlan['framework']
  readonly isShared: boolean
  readonly peer: string
  readonly aim: number
}

interface Found {
  readonly situation: Situation
  readonly ours: readonly ServerFigure[]
  readonly peers: readonly ServerFigure[]
  readonly bare: readonly ServerFigure[]
}

interface ServerFigure extends HttpFigure {
  /** Processor time of the server for a request. */
  readonly processorUs: number
}

const packages = [
  ...['express', 'express-rate-limit', 'rate-limit-redis'],
  ...['fastify', '@fastify/rate-limit', 'ioredis'],
]

const OURS = 'Tidegate'
const BARE = 'without a limiter'

/** Many short rounds in turns: the machine changes its speed within seconds. */
const FULL = { rounds: 9, seconds: 1 }
const QUICK = { rounds: 1, seconds: 1 }

/** V8 takes up to two seconds of load to compile all of a server. */
const WARM_UP_SECONDS = 3

const OWN_REASON =
  'Nearly all of such a request is the framework itself. If the two are about even, which of ' +
  'them is ahead changes from run to run.'

const SHARED_REASON =
  'With 32 connections few calls are in flight that could be gathered, and most of the time of a ' +
  "request is the framework's."

const situations: readonly Situation[] = [
  {
    name: 'middleware-express-memory',
    what: 'Express, in memory',
    framework: 'express',
    isShared: false,
    peer: 'express-rate-limit',
    aim: 1.3,
  },
  {
    name: 'middleware-express-redis',
    what: 'Express, on Redis',
    framework: 'express',
    isShared: true,
    peer: 'express-rate-limit with rate-limit-redis',
    aim: 1.2,
  },
  {
    name: 'middleware-fastify-memory',
    what: 'Fastify, in memory',
    framework: 'fastify',
    isShared: false,
    peer: '@fastify/rate-limit',
    aim: 1,
  },
  {
    name: 'middleware-fastify-redis',
    what: 'Fastify, on Redis',
    framework: 'fastify',
    isShared: true,
    peer: '@fastify/rate-limit',
    aim: 1.2,
  },
]

async function compareServers(
  run: Run,
  situation: Situation,
  load: HttpLoad,
  place: { readonly core: CoreOfItsOwn; readonly redisUrl: string },
): Promise<Found> {
  const { name, what, framework, isShared, peer, aim } = situation
  const redisUrl = isShared ? place.redisUrl : undefined
  const { rounds, seconds } = run.isQuick ? QUICK : FULL
  const names = { tidegate: OURS, peer, none: BARE }
  const servers = await Promise.all(
    (['tidegate', 'peer', 'none'] as const).map(async (limiter) => {
      return { name: names[limiter], ...(await start(run, { framework, limiter, redisUrl })) }
    }),
  )
  for (const { child } of servers) moveToCore(place.core, child.pid)
  const contenders = servers.map(({ name, child, said: port }) => ({
    name,
    run: () => measured(child, () => load.load(port, seconds)),
    warmUp: () => (run.isQuick ? load.warmUp(port) : load.load(port, WARM_UP_SECONDS)),
  }))
  const figures = await takeTurns(run, what, contenders, rounds)
  await Promise.all(servers.map((server) => server.stop()))
  const of = (contender: string) => figures.get(contender) ?? []
  const [ours, peers, bare] = [of(OURS), of(peer), of(BARE)]
  run.compared({
    name,
    what,
    ours: OURS,
    peer,
    unit: 'requests per second',
    rounds: ours.map(({ perSecond }, at) => ({
      ours: perSecond,
      peer: peers[at]?.perSecond ?? Number.NaN,
    })),
    aim,
    reason: isShared ? SHARED_REASON : OWN_REASON,
  })
  return { situation, ours, peers, bare }
}

async function measured(
  server: ChildProcess,
  load: () => Promise<HttpFigure>,
): Promise<ServerFigure> {
  const startUs = await processorUs(server)
  const figure = await load()
  return { ...figure, processorUs: ((await processorUs(server)) - startUs) / figure.requests }
}

async function processorUs(server: ChildProcess): Promise<number> {
  server.send('processor time')
  const [us] = (await once(server, 'message')) as [number]
  return us
}

function start(run: Run, plan: MiddlewarePlan) {
  const program = new URL('./parts/middleware/server.ts', import.meta.url)
  return forkReady<number>(run, program, [JSON.stringify(plan)])
}

function report(run: Run, found: readonly Found[]): void {
  const of = (figures: readonly ServerFigure[], field: keyof ServerFigure) =>
    median(figures.map((figure) => figure[field]))
  run.table({
    name: 'middleware-processor',
    title: 'Processor time of a server for a request, in µs, medians',
    columns: [
      { name: 'Tidegate', digits: 1 },
      { name: 'the peer', digits: 1 },
      { name: BARE, digits: 1 },
      { name: 'without a limiter, times the peer', digits: 2 },
    ],
    rows: found.map(({ situation, ours, peers, bare }) => ({
      name: situation.what,
      isOurs: false,
      cells: [
        ...[ours, peers, bare].map((figures) => of(figures, 'processorUs')),
        of(bare, 'perSecond') / of(peers, 'perSecond'),
      ],
    })),
  })
  run.table({
    name: 'middleware-latency',
    title: 'The 99th percentile of the time of a request, in ms, with 32 connections, medians',
    columns: [
      { name: 'Tidegate', digits: 2 },
      { name: 'the peer', digits: 2 },
    ],
    rows: found.map(({ situation, ours, peers }) => ({
      name: situation.what,
      isOurs: false,
      cells: [of(ours, 'p99Ms'), of(peers, 'p99Ms')],
    })),
  })
  const peerNames = [...new Set(found.map(({ situation }) => situation.peer))]
  const points = (each: readonly Found[], side: 'ours' | 'peers') =>
    each.map((one) => ({ x: one.situation.what, y: of(one[side], 'perSecond') }))
  run.chart({
    name: 'middleware',
    title: 'Requests per second of a server with a middleware',
    kind: 'bars',
    xLabel: 'framework and store',
    yLabel: 'requests per second, all admitted, one process',
    series: [
      { name: OURS, isOurs: true, points: points(found, 'ours') },
      ...peerNames.map((name) => ({
        name,
        isOurs: false,
        points: points(
          found.filter(({ situation }) => situation.peer === name),
          'peers',
        ),
      })),
    ],
  })
}
