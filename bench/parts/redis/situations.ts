/** Situations of bench/redis.ts and bench/cluster.ts, measured and reported in the same way. */

import type { Cluster, Redis } from 'ioredis'
import type { Run } from '../../harness/part.ts'
import { median, takeTurns } from '../../harness/rounds.ts'
import {
  cpuUsOf,
  measure,
  OURS,
  PEER,
  type RedisLoad,
  type RedisRound,
  redisCallers,
} from './load.ts'

export interface RedisSituation extends RedisLoad {
  /** The name of the comparison. */
  readonly name: string
  readonly what: string
  /** The limit of each key, so high that no request is denied: admitted requests are compared. */
  readonly limitPerMinute: number
  readonly aim?: number
  readonly reason?: string
  /** Into how many shorter rounds each round is divided. Default: 1. */
  readonly shortRounds?: number
}

export interface RedisSetting {
  readonly client: Redis | Cluster
  /** Connections to the servers, to read their processor time. */
  readonly servers: readonly Redis[]
  readonly rounds: number
}

export interface RedisFound {
  readonly situation: RedisSituation
  readonly rounds: ReadonlyMap<string, readonly RedisRound[]>
}

export async function compareOnRedis(
  run: Run,
  situations: readonly RedisSituation[],
  { client, servers, rounds }: RedisSetting,
): Promise<RedisFound[]> {
  const found: RedisFound[] = []
  for (const situation of situations) {
    const { shortRounds = 1, limitPerMinute } = situation
    const load = { ...situation, calls: Math.round(situation.calls / shortRounds) }
    const contenders = redisCallers(client, limitPerMinute).map((caller) => ({
      name: caller.name,
      run: () => measure(caller, load, () => cpuUsOf(servers)),
      warmUp: () => measure(caller, situation, () => cpuUsOf(servers)),
    }))
    const figures = await takeTurns(run, situation.what, contenders, rounds * shortRounds)
    found.push({ situation, rounds: figures })
    compare(run, situation, figures)
  }
  costTable(run, found)
  return found
}

/** The median of a caller's rounds. */
export function medianOf({ rounds }: RedisFound, name: string, field: keyof RedisRound): number {
  return median((rounds.get(name) ?? []).map((round) => round[field]))
}

function compare(
  run: Run,
  situation: RedisSituation,
  figures: ReadonlyMap<string, readonly RedisRound[]>,
): void {
  const peers = figures.get(PEER) ?? []
  const { name, what, aim, reason } = situation
  run.compared({
    name,
    what,
    ours: OURS,
    peer: PEER,
    unit: 'decisions per second',
    rounds: (figures.get(OURS) ?? []).map(({ perSecond }, at) => ({
      ours: perSecond,
      peer: peers[at]?.perSecond ?? Number.NaN,
    })),
    ...(aim !== undefined && { aim }),
    ...(reason !== undefined && { reason }),
  })
}

function costTable(run: Run, found: readonly RedisFound[]): void {
  run.table({
    name: `${found[0]?.situation.name}-cost`,
    title: 'What a decision costs, medians: processor time of the process and of Redis together',
    columns: [
      { name: 'per second', digits: 0 },
      { name: 'p99 in ms', digits: 2 },
      { name: 'CPU in µs', digits: 1 },
    ],
    rows: found.flatMap((each) =>
      [...each.rounds.keys()].map((name) => ({
        name: `${each.situation.what}: ${name}`,
        isOurs: name === OURS,
        cells: (['perSecond', 'p99Ms', 'cpuUs'] as const).map((field) =>
          medianOf(each, name, field),
        ),
      })),
    ),
  })
}
