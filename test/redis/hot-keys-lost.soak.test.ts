/**
 * Leases when their holder dies, when Redis loses its data, and when another server takes over,
 * while several processes spend as fast as they can.
 *
 * The limits are per day, so that no unit is refilled. A data set admits at most the units that it
 * has charged and leased: `used` and `held` when it is lost. The next data set admits the limit. So
 * the total is at most the sum of the three, and leases add at most `held`.
 */

import { once } from 'node:events'
import { afterEach, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../support/servers/redis.ts'
import { startSentinel } from '../support/servers/sentinel.ts'
import { until } from '../support/servers/until.ts'
import type { HotPlan } from './hot-worker.ts'
import { type HotWorkers, startHotWorkers, sumOf } from './hot-workers.ts'

const DAY_MS = 86_400_000

/** Large enough not to be spent before the data set is lost. */
const LIMIT = 2_000_000

/** How long the store keeps the lease of a silent process. */
const LEASE_TTL_MS = 2_000

/** The first leases of a key are small; these tests need large ones. */
const HELD_MIN = 4_000

/** Longer than any of these tests runs. */
const PAUSE_MS = 60_000

let stops: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const stop of stops.toReversed()) await stop()
  stops = []
})

it('a holder that is killed keeps at most its block from the others', async () => {
  const server = await started(startRedis())
  const [holder, others] = [await hot(1, { url: server.url }), await hot(2, { url: server.url })]
  await spendUntilHeld(holder, server)
  await killAll(holder)
  const { used, held } = await stateOf(server)
  const admitted = await untilSpent(others)
  console.log(`killed: ${held} of ${LIMIT} were in its block`)
  expect(admitted).toBeLessThanOrEqual(LIMIT - used - held)
  // Normally all. One of the others that stalls for longer than its lease lasts loses it.
  expect(admitted).toBeGreaterThan((LIMIT - used - held) * 0.9)
})

it('the block of a holder that is killed comes back to a bucket after its lifetime', async () => {
  const server = await started(startRedis())
  const holder = await hot(1, { url: server.url, algorithm: 'tokenBucket', perMs: 1_000 })
  await spendUntilHeld(holder, server)
  await killAll(holder)
  const killedMs = performance.now()
  await until('nothing is used or held', async () => (await server.command('DBSIZE')) === 0)
  const tookMs = performance.now() - killedMs
  // One second in which a whole bucket refills, and one for Redis to notice.
  const expectedMs = LEASE_TTL_MS + 2_000
  console.log(`killed: the bucket was full after ${tookMs.toFixed(0)} of ${expectedMs} ms`)
  expect(tookMs).toBeLessThan(10 * expectedMs)
})

it('after FLUSHALL blocks are spent and charged, and none is granted twice', async () => {
  const server = await started(startRedis())
  const workers = await hot(4, { url: server.url })
  const spending = spend(workers)
  await untilHeld(server)
  const lost = readState(await server.command('EVAL', `${READ} redis.call('FLUSHALL') ${TELL}`, 0))
  await expectNotTwice('FLUSHALL', lost, workers, spending)
})

it('after a restart without data blocks are charged, and none is granted twice', async () => {
  const server = await started(startRedis())
  const workers = await hot(4, { url: server.url })
  const spending = spend(workers)
  await untilHeld(server)
  const lost = await freeze(server)
  server.kill('SIGKILL')
  await server.restart()
  await expectNotTwice('restart', lost, workers, spending)
})

it('after a failover the next master knows the blocks, and not one unit is too many', async () => {
  const group = await started(startSentinel({ replicas: 1, sentinels: 3, downAfterMs: 3_000 }))
  const [master, replica] = group.servers as [RedisServer, RedisServer]
  const { name, addresses } = group
  const workers = await hot(4, { url: master.url, sentinel: { name, addresses } })
  const spending = spend(workers)
  await untilHeld(master)
  const { used, held } = await freeze(master)
  await until('the replica knows it', async () => (await stateOf(replica)).used === used)
  master.kill('SIGKILL')
  await until('it is master', async () =>
    String(await replica.command('ROLE')).startsWith('master'),
  )
  const admitted = sumOf(await spending).admitted + (await untilSpent(workers))
  console.log(`failover: ${used} used, ${held} held, ${admitted} of ${LIMIT} admitted`)
  expect(admitted).toBeLessThanOrEqual(LIMIT)
  expect(admitted).toBeGreaterThan(LIMIT * 0.9)
})

/** Starts processes that spend a limit per day, and stops them after the test. */
async function hot(count: number, part: Partial<HotPlan>): Promise<HotWorkers> {
  const plan = { library: 'tidegate', algorithm: 'fixedWindow', limit: LIMIT } as const
  return started(startHotWorkers(count, { url: '', perMs: DAY_MS, ...plan, ...part }))
}

async function started<T extends { stop(): Promise<void> }>(starting: Promise<T>): Promise<T> {
  const one = await starting
  stops.push(() => one.stop())
  return one
}

/** Spends while the data set is lost, and until the first lease after that. */
function spend(workers: HotWorkers) {
  return workers.run({ durationMs: 2 * LEASE_TTL_MS })
}

/** The units that are admitted until the limit is spent. */
async function untilSpent(workers: HotWorkers): Promise<number> {
  let sum = 0
  return until('all is spent', async () => {
    const { made, admitted, degraded } = sumOf(await workers.run({ durationMs: 300 }))
    sum += admitted
    return made > 0 && admitted + degraded === 0 ? sum : undefined
  })
}

async function spendUntilHeld(workers: HotWorkers, server: RedisServer): Promise<void> {
  void workers.run({ durationMs: PAUSE_MS })
  await untilHeld(server)
}

function untilHeld(server: RedisServer): Promise<true> {
  return until('large blocks are out', async () => (await stateOf(server)).held >= HELD_MIN)
}

async function killAll({ processes }: HotWorkers): Promise<void> {
  for (const child of processes) {
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }
}

interface State {
  readonly used: number
  readonly held: number
}

/**
 * Reads the used and held units of the only counter. The formats are in fixed-window.lua and
 * hold-set.lua.
 */
const READ = `
  local used, held, key = 0, 0, redis.call('KEYS', '*')[1]
  if key and redis.call('TYPE', key).ok == 'zset' then
    local member = redis.call('ZRANGE', key, -1, -1)[1]
    held = struct.unpack('<d', member)
    if #member == 35 + 16 then used = struct.unpack('<d', member, 36) end
  elseif key then
    used = struct.unpack('<d', redis.call('GET', key))
  end
`
const TELL = 'return { used, held }'

async function stateOf(server: RedisServer): Promise<State> {
  return readState(await server.command('EVAL_RO', READ + TELL, 0))
}

function readState(reply: unknown): State {
  const [used, held] = reply as [number, number]
  return { used, held }
}

/** Pauses all writes, and returns the state that is lost if the server dies now. */
async function freeze(server: RedisServer): Promise<State> {
  await server.command('CLIENT', 'PAUSE', PAUSE_MS, 'WRITE')
  return stateOf(server)
}

async function expectNotTwice(
  what: string,
  { used, held }: State,
  workers: HotWorkers,
  spending: ReturnType<HotWorkers['run']>,
): Promise<void> {
  const admitted = sumOf(await spending).admitted + (await untilSpent(workers))
  const tooMany = admitted - used - LIMIT
  console.log(
    `${what}: ${used} used and lost, ${held} held, ${tooMany} more than ${LIMIT} after it`,
  )
  expect(held).toBeGreaterThan(0)
  expect(tooMany).toBeLessThanOrEqual(held)
  expect(tooMany).toBeGreaterThan(-LIMIT / 10)
}
