/** Four processes with one Redis: a key is executed once, whatever happens to its clients. */

import { randomInt, randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../support/servers/redis.ts'
import { until } from '../support/servers/until.ts'
import { isSoak } from '../support/suite.ts'
import { type KeyedWorker, send, startKeyedWorkers, stopKeyedWorkers } from './keyed-workers.ts'

/** Rounds of a hundred requests: a thousand take one to two minutes. */
const ROUNDS = isSoak ? 1_002 : 6

/** Most of a round is waiting. */
const ROUNDS_AT_ONCE = 6

const REQUESTS = 100
const PROCESSES = 4

/** Renewed three times in it, so that an owner may stall for two thirds without losing its key. */
const LEASE_MS = 4_000

/** One request in ten is aborted, within the time that a handler takes. */
const ABORTED_EACH = 10
const ABORT_MS_MAX = 20

let server: RedisServer
let redis: Redis

beforeAll(async () => {
  server = await startRedis()
  redis = new Redis({ host: server.host, port: server.port })
})

afterAll(async () => {
  redis?.disconnect()
  await server?.stop()
})

const runsOf = async (key: string) => Number(await redis.get(`runs:${key}`))

describe('a hundred requests with one key to four processes', () => {
  let workers: readonly KeyedWorker[] = []

  beforeAll(async () => {
    workers = await startKeyedWorkers(PROCESSES, { url: server.url, lease: '10s' })
  })

  afterAll(() => stopKeyedWorkers(workers))

  test(`run the handler once and get the same bytes, in ${ROUNDS} rounds`, async () => {
    const runRound = async (round: number) => {
      const key = randomUUID()
      const answers = await Promise.all(
        Array.from({ length: REQUESTS }, (_, at) => {
          const worker = workers[at % PROCESSES] as KeyedWorker
          const isAborted = at % ABORTED_EACH === round % ABORTED_EACH
          return send(worker, key, { abortMs: isAborted ? randomInt(ABORT_MS_MAX) : undefined })
        }),
      )
      const complete = answers.filter((answer) => answer !== undefined)
      expect(complete.length).toBeGreaterThanOrEqual(REQUESTS - REQUESTS / ABORTED_EACH)
      const different = new Set(complete.map(({ status, body }) => `${status} ${body}`))
      expect([different.size, await runsOf(key)]).toEqual([1, 1])
    }
    for (let round = 0; round < ROUNDS; round += ROUNDS_AT_ONCE) {
      const numbers = Array.from({ length: ROUNDS_AT_ONCE }, (_, at) => round + at)
      await Promise.all(numbers.map(runRound))
    }
  })
})

describe('an owner', () => {
  let workers: readonly KeyedWorker[] = []

  beforeAll(async () => {
    workers = await startKeyedWorkers(PROCESSES, { url: server.url, lease: `${LEASE_MS}ms` })
  })

  afterAll(() => stopKeyedWorkers(workers))

  /** Starts a request whose handler is held, and requests of the others that wait for it. */
  async function held() {
    const [owner, ...others] = workers as [KeyedWorker, ...KeyedWorker[]]
    const key = randomUUID()
    const first = send(owner, key, { path: '/held' })
    await until('the handler runs', async () => (await runsOf(key)) === 1)
    const waiting = Array.from({ length: 30 }, (_, at) => {
      return send(others[at % others.length] as KeyedWorker, key, { path: '/held' })
    })
    const go = () => redis.set(`go:${key}`, 1)
    return { owner, key, first, waiting, go }
  }

  test('that is slow keeps its key, because its lease is renewed', async () => {
    const { key, first, waiting, go } = await held()
    const startMs = performance.now()
    await until('leases have passed', async () => performance.now() - startMs > 2.5 * LEASE_MS)
    await go()
    const answers = await Promise.all([first, ...waiting])
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1)
    expect(await runsOf(key)).toBe(1)
  })

  test('that is stopped beyond its lease has one successor, whose result stays', async () => {
    const { owner, key, first, waiting, go } = await held()
    owner.child.kill('SIGSTOP')
    await until('another has taken over', async () => (await runsOf(key)) === 2)
    await go()
    const answers = await Promise.all(waiting)
    owner.child.kill('SIGCONT')
    const late = await first
    expect(new Set([late, ...answers].map((answer) => JSON.stringify(answer))).size).toBe(1)
    expect(await send(owner, key, { path: '/held' })).toEqual(late)
    expect(await runsOf(key)).toBe(2)
  })

  test('that is killed has one successor', async () => {
    const { owner, key, first, waiting, go } = await held()
    owner.child.kill('SIGKILL')
    await until('another has taken over', async () => (await runsOf(key)) === 2)
    await go()
    const answers = await Promise.all(waiting)
    expect(await first).toBe(undefined)
    expect(answers).not.toContain(undefined)
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1)
    expect(await runsOf(key)).toBe(2)
  })
})
