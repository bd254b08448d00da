/** Ours against the peer on hot keys. */

import { Redis } from 'ioredis'
import type { HotPlan, HotRound } from '../../../test/redis/hot-worker.ts'
import { type HotWorkers, startHotWorkers, sumOf } from '../../../test/redis/hot-workers.ts'
import type { RedisServer } from '../../../test/support/servers/redis.ts'
import { verdictOf } from '../../harness/figures.ts'
import type { Run } from '../../harness/part.ts'
import { median, takeTurns } from '../../harness/rounds.ts'

interface Situation {
  readonly name: string
  readonly what: string
  readonly plan: Pick<HotPlan, 'algorithm' | 'limit' | 'perMs'>
  readonly round: Partial<HotRound>
  readonly processes: number
  /** The aims: the least ratio to the peer, and the most commands per decision. */
  readonly aim: number
  readonly commandsMax: number
}

interface Figure {
  readonly perSecond: number
  /** Redis script calls per decision. */
  readonly commands: number
}

interface Found {
  readonly situation: Situation
  readonly ours: readonly Figure[]
  readonly peers: readonly Figure[]
}

const OURS = 'Tidegate'
const PEER = 'rate-limiter-flexible'

const DAY_MS = 24 * 3_600_000

const situations: readonly Situation[] = [
  {
    name: 'hot-keys-one',
    what: 'one key, under its limit, 4 processes',
    plan: { algorithm: 'tokenBucket', limit: 1_000_000_000, perMs: 1_000 },
    round: {},
    processes: 4,
    aim: 10,
    commandsMax: 0.01,
  },
  {
    name: 'hot-keys-exhausted',
    what: 'one key, exhausted, 4 processes',
    plan: { algorithm: 'fixedWindow', limit: 100, perMs: DAY_MS },
    round: {},
    processes: 4,
    aim: 10,
    commandsMax: 0.001,
  },
  {
    name: 'hot-keys-zipf',
    what: "100,000 keys by Zipf's law (1.1), 256 in flight in one process",
    plan: { algorithm: 'tokenBucket', limit: 1_000_000, perMs: 1_000 },
    // Long enough that detecting the hot keys again in each round does not matter.
    round: { keys: 100_000, isZipf: true, inFlight: 256, durationMs: 4_000 },
    processes: 1,
    aim: 5,
    commandsMax: 1,
  },
]

export async function compareHotKeys(run: Run, server: RedisServer): Promise<void> {
  const found: Found[] = []
  for (const situation of situations) found.push(await compareSituation(run, server, situation))
  run.table({
    name: 'hot-keys-commands',
    title: 'Commands of Redis for 1,000 decisions of Tidegate, medians',
    columns: [{ name: 'commands' }, { name: 'aim: at most' }, { name: '' }],
    rows: found.map(({ situation: { what, commandsMax }, ours }) => {
      const commands = median(ours.map((figure) => figure.commands))
      const verdict = verdictOf(commands <= commandsMax)
      return { name: what, isOurs: true, cells: [commands * 1_000, commandsMax * 1_000, verdict] }
    }),
  })
  run.chart({
    name: 'hot-keys',
    title: 'Hot keys on one Redis server',
    kind: 'bars',
    xLabel: 'keys',
    yLabel: 'decisions per second, all processes together',
    series: [
      {
        name: OURS,
        isOurs: true,
        points: found.map(({ situation, ours }) => bar(situation, ours)),
      },
      {
        name: PEER,
        isOurs: false,
        points: found.map(({ situation, peers }) => bar(situation, peers)),
      },
    ],
  })
}

async function compareSituation(
  run: Run,
  server: RedisServer,
  situation: Situation,
): Promise<Found> {
  const { name, what, plan, processes, aim } = situation
  const start = async (library: HotPlan['library']) => {
    const workers = await startHotWorkers(processes, { ...plan, library, url: server.url })
    run.onStop(() => workers.stop())
    return workers
  }
  const client = new Redis(server.url)
  run.onStop(() => client.disconnect())
  const round = run.isQuick
    ? { ...situation.round, durationMs: (situation.round.durationMs ?? 1_000) / 5 }
    : situation.round
  const [own, other] = await Promise.all([start('tidegate'), start('rate-limiter-flexible')])
  const contenders = [
    { name: OURS, run: () => figureOf(own, round, client) },
    { name: PEER, run: () => figureOf(other, round, client) },
  ]
  const figures = await takeTurns(run, what, contenders, run.isQuick ? 1 : 5)
  await Promise.all([own.stop(), other.stop()])
  const [ours = [], peers = []] = [figures.get(OURS), figures.get(PEER)]
  run.compared({
    name,
    what,
    ours: OURS,
    peer: PEER,
    unit: 'decisions per second',
    rounds: ours.map(({ perSecond }, at) => ({
      ours: perSecond,
      peer: peers[at]?.perSecond ?? Number.NaN,
    })),
    aim,
    reason:
      'On a machine with few cores the processes and Redis share them, and less is left to gain.',
  })
  return { situation, ours, peers }
}

async function figureOf(
  workers: HotWorkers,
  round: Partial<HotRound>,
  client: Redis,
): Promise<Figure> {
  const before = await scriptCalls(client)
  const startMs = performance.now()
  const { made, failed } = sumOf(await workers.run(round))
  if (failed > 0) throw new Error(`${failed} of ${made} calls failed`)
  const perSecond = (made * 1_000) / (performance.now() - startMs)
  return { perSecond, commands: ((await scriptCalls(client)) - before) / made }
}

async function scriptCalls(client: Redis): Promise<number> {
  const stats = await client.info('commandstats')
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
}

function bar({ what }: Situation, figures: readonly Figure[]) {
  return { x: what, y: median(figures.map(({ perSecond }) => perSecond)) }
}
